// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What the unit tests share: descriptors counted, a scratch folder, a limit in time.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace cudaipc::test {

inline size_t open_descriptors() {
  size_t n = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder))
    ++n;
  closedir(folder);
  return n;
}

// Fails the test if it ends with more or fewer descriptors than it began with.
class FdLeakCheck {
 public:
  FdLeakCheck() : before_(open_descriptors()) {}
  ~FdLeakCheck() { EXPECT_EQ(open_descriptors(), before_) << "descriptors leaked or closed twice"; }

 private:
  const size_t before_;
};

// A folder that goes with the test.
class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/cudaipc-test-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Ends the process, and with it the test, when a wait never ends.
class Watchdog {
 public:
  explicit Watchdog(unsigned seconds = 60) { alarm(seconds); }
  ~Watchdog() { alarm(0); }
};

}  // namespace cudaipc::test
