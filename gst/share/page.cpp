// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Making, checking and mapping the shared page.
#include "gst/share/page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace cudaipc {
namespace {
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
}

Result<SharedPage> SharedPage::create() {
  UniqueFd fd(memfd_create("cudaipc-page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd)
    return system_error("memfd_create", "", errno);
  if (ftruncate(fd.get(), wire::kPageSize) != 0)
    return system_error("ftruncate", "shared page", errno);
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return system_error("fcntl", "F_ADD_SEALS", errno);
  return map(std::move(fd));
}

Result<SharedPage> SharedPage::open(UniqueFd fd) {
  struct stat st {};
  if (fstat(fd.get(), &st) != 0)
    return system_error("fstat", "shared page", errno);
  if (st.st_size != static_cast<off_t>(wire::kPageSize))
    return Error{Fault::Protocol, 0, "the shared page has the wrong size"};
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Error{Fault::Protocol, 0, "the shared page is not sealed against resizing"};
  return map(std::move(fd));
}

Result<SharedPage> SharedPage::map(UniqueFd fd) {
  void* memory = mmap(nullptr, wire::kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED)
    return system_error("mmap", "shared page", errno);
  return SharedPage(std::move(fd), static_cast<wire::Page*>(memory));
}

SharedPage::SharedPage(SharedPage&& other) noexcept
    : fd_(std::move(other.fd_)),
      page_(std::exchange(other.page_, nullptr)),
      registration_(std::move(other.registration_)) {
  other.registration_.reset();
}

SharedPage::~SharedPage() {
  registration_.reset();
  if (page_)
    munmap(page_, wire::kPageSize);
}

Result<void> SharedPage::register_with(ContextPtr context) {
  auto registration = HostRegistration::create(std::move(context), page_, wire::kPageSize);
  if (!registration)
    return std::move(registration.error());
  registration_.emplace(std::move(*registration));
  return {};
}

}  // namespace cudaipc
