// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What works with a peer of another user or in namespaces of its own.
#include "conformance.h"

namespace cudaipc::test {
namespace {

struct Place {
  const char* name;
  bool events;  // interprocess events work
};
void PrintTo(const Place& place, std::ostream* out) {
  *out << place.name;
}

class PeerIn : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (!peer_.obstacle().empty())
      GTEST_SKIP() << peer_.obstacle();
  }
  Peer peer_{GetParam().name};
};

TEST_P(PeerIn, MapsMemory) {
  for (const bool vmm : {false, true}) {
    SCOPED_TRACE(vmm ? "VMM" : "legacy");
    Owned memory(here(), vmm);
    const Answer there = memory.open_in(peer_);
    ASSERT_OK(there);
    EXPECT_EQ(peer_.sum(there.value, kBytes).value, sum_of(kPattern, kBytes));
    EXPECT_OK(memory.close_in(peer_, there.value));
  }
}

TEST_P(PeerIn, OpensEventsOnlyWhereDevShmIsShared) {
  const Answer event = here()(Op::CreateEvent);
  ASSERT_OK(event);
  ASSERT_OK(here()(Op::RecordEvent, event.value));
  const Answer opened = peer_(Op::OpenEvent, event.handle);
  if (GetParam().events) {
    EXPECT_OK(opened);
    EXPECT_OK(poll_ready([&] { return peer_(Op::QueryEvent, opened.value); }));
    EXPECT_OK(peer_(Op::DestroyEvent, opened.value));
  } else {
    EXPECT_CUDA(CUDA_ERROR_MAP_FAILED, opened);
  }
  EXPECT_OK(here()(Op::DestroyEvent, event.value));
}

TEST_P(PeerIn, SharesSemaphores) {
  const UniqueFd page = new_page();
  ASSERT_OK(here()(Op::MapPage, page));
  ASSERT_OK(peer_(Op::MapPage, page));
  // Stream to stream, both ways.
  ASSERT_OK(peer_(Op::WaitValue, 0, 7));
  ASSERT_OK(peer_(Op::WriteValue, 1, 8));
  ASSERT_OK(here()(Op::WaitValue, 1, 8));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, peer_(Op::QueryStream));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, here()(Op::QueryStream));
  // The CPU starts the chain, and sees its end.
  ASSERT_OK(here()(Op::StorePage, 0, 7));
  EXPECT_OK(here()(Op::Synchronize));
  EXPECT_OK(peer_(Op::Synchronize));
  EXPECT_EQ(here()(Op::LoadPage, 1).value, 8u);
  ASSERT_OK(here()(Op::WriteValue, 2, 9));
  ASSERT_OK(here()(Op::Synchronize));
  EXPECT_EQ(peer_(Op::LoadPage, 2).value, 9u);
}

INSTANTIATE_TEST_SUITE_P(Places, PeerIn,
                         testing::Values(Place{"here", true}, Place{"ipc", true},
                                         Place{"net", true}, Place{"user", false},
                                         Place{"shm", false}, Place{"all", false}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace cudaipc::test
