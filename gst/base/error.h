// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The one error type of the project, and the result type that carries it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace cudaipc {

// Which party or rule failed. It decides what the element does: Protocol and Closed end one peer;
// Cuda, System, Unsupported and Exhausted are for a person; Cancelled and Timeout are our own wish.
enum class Fault { Cuda, System, Protocol, Closed, Unsupported, Exhausted, Cancelled, Timeout };

// Made where the failure is first known, with words for a person: what failed, on what, and the
// code's own text. Callers pass it up and may add what only they know (address, slot, cure).
struct Error {
  Fault fault = Fault::System;
  int code = 0;  // CUresult for Cuda, errno for System, otherwise 0
  std::string message;

  Error&& with(const std::string& context) && {
    message = context + ": " + message;
    return std::move(*this);
  }
};

// A value or an Error. Reading the wrong side is a bug of ours (std::get throws, we never catch).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  Error& error() { return std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return !error_; }
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

// errno as words, thread-safe.
std::string errno_text(int code);
// An Error for a failed system call: `call` is the call's own name, `about` what it was done to.
Error system_error(const char* call, const std::string& about, int code);

}  // namespace cudaipc

// Leaves the function with the error of `expr`, if any; for expressions whose value is not needed.
#define TRY(expr)                                \
  do {                                           \
    if (auto try_result_ = (expr); !try_result_) \
      return std::move(try_result_.error());     \
  } while (0)
