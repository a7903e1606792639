// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Words for system errors.
#include "gst/base/error.h"

#include <system_error>

namespace cudaipc {

std::string errno_text(int code) {
  return std::generic_category().message(code);
}

Error system_error(const char* call, const std::string& about, int code) {
  std::string text = call;
  if (!about.empty())
    text += " (" + about + ")";
  return {Fault::System, code, text + ": " + errno_text(code)};
}

}  // namespace cudaipc
