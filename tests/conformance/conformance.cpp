// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What the driver accepts and refuses: the same answers from the software device and a real GPU.
//
// Peers that break a rule on purpose leave without a report of the software device.
#include "conformance.h"

#include <sys/mman.h>

#include <memory>

namespace cudaipc::test {
namespace {

std::unique_ptr<Gpu> own_gpu;

class OwnGpu : public testing::Environment {
 public:
  void SetUp() override {
    own_gpu = std::make_unique<Gpu>();
    ASSERT_OK(here()(Op::Init));
  }
  void TearDown() override { own_gpu.reset(); }
};

void expect_refused(Op allocate, Op release) {
  const Answer memory = here()(allocate, kBytes);
  ASSERT_OK(memory);
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, here()(Op::ExportLegacy, memory.value));
  EXPECT_OK(here()(release, memory.value));
}

}  // namespace

Gpu& here() {
  return *own_gpu;
}

UniqueFd new_page() {
  UniqueFd fd(memfd_create("semaphores", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), 4096), 0);
  return fd;
}

TEST(Accepted, LegacyHandleOfOrdinaryMemory) {
  Owned memory(here(), false);
  Peer peer;
  const Answer there = memory.open_in(peer);
  ASSERT_OK(there);
  EXPECT_EQ(peer.sum(there.value, kBytes).value, sum_of(kPattern, kBytes));
  ASSERT_OK(peer.fill(there.value, kBytes, 3));
  EXPECT_EQ(here().sum(memory.address(), kBytes).value, 3 * kBytes);
  EXPECT_OK(memory.close_in(peer, there.value));
}

TEST(Refused, LegacyHandleOfManagedMemory) {
  expect_refused(Op::AllocManaged, Op::Free);
}

TEST(Refused, LegacyHandleOfPoolMemory) {
  expect_refused(Op::AllocPool, Op::Free);
}

TEST(Refused, LegacyHandleOfVmmMemory) {
  expect_refused(Op::CreateVmm, Op::FreeVmm);
}

TEST(Refused, OwnMemoryHandle) {
  Owned memory(here(), false);
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, memory.open_in(here()));
}

TEST(Refused, OwnEventHandle) {
  const Answer event = here()(Op::CreateEvent);
  ASSERT_OK(event);
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, here()(Op::OpenEvent, event.handle));
  EXPECT_OK(here()(Op::DestroyEvent, event.value));
}

TEST(Accepted, SameHandleTwiceNeedsTwoCloses) {
  Owned memory(here(), false);
  Peer peer;
  const Answer first = memory.open_in(peer);
  const Answer second = memory.open_in(peer);
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_EQ(first.value, second.value);
  EXPECT_OK(memory.close_in(peer, first.value));
  EXPECT_EQ(peer.sum(first.value, kBytes).value, sum_of(kPattern, kBytes));
  EXPECT_OK(memory.close_in(peer, first.value));
}

TEST(Accepted, VmmDescriptorInItsExporter) {
  Owned memory(here(), true);
  const Answer again = memory.open_in(here());
  ASSERT_OK(again);
  EXPECT_NE(again.value, memory.address());
  EXPECT_EQ(here().sum(again.value, kBytes).value, sum_of(kPattern, kBytes));
  ASSERT_OK(here().fill(again.value, kBytes, 5));
  EXPECT_EQ(here().sum(memory.address(), kBytes).value, 5 * kBytes);
  EXPECT_OK(memory.close_in(here(), again.value));
}

TEST(Accepted, AllocationHandleTellsVmmMemory) {
  Owned vmm(here(), true);
  Owned legacy(here(), false);
  EXPECT_OK(here()(Op::Retain, vmm.address()));
  EXPECT_FALSE(here()(Op::Retain, legacy.address()).ok());
}

TEST(Accepted, DmaBufOfVmmMemory) {
  const Answer supported = here()(Op::Attribute, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
  ASSERT_OK(supported);
  if (!supported.value)
    GTEST_SKIP() << "the device says that it has no dma-buf";
  Owned memory(here(), true);
  const Answer exported = here()(Op::DmaBuf, memory.address(), kBytes);
  EXPECT_OK(exported);
  EXPECT_TRUE(static_cast<bool>(exported.fd));
}

TEST(Accepted, ReadOnlyImportIsEnforced) {
  Owned memory(here(), true);
  Peer peer;
  const Answer there = memory.open_in(peer, false);
  ASSERT_OK(there);
  EXPECT_EQ(peer.sum(there.value, kBytes).value, sum_of(kPattern, kBytes));
  ASSERT_OK(peer(Op::Poke, there.value, 0));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, peer(Op::Synchronize));
  // The exporter neither lost a byte nor its context.
  const Answer sum = here().sum(memory.address(), kBytes);
  EXPECT_OK(sum);
  EXPECT_EQ(sum.value, sum_of(kPattern, kBytes));
  EXPECT_OK(here().fill(memory.address(), kBytes, 1));
}

TEST(Accepted, KernelsAndCopiesReadTheSameOfAllImports) {
  Owned legacy(here(), false);
  Owned vmm(here(), true);
  Peer peer;
  const Answer imports[] = {legacy.open_in(peer), vmm.open_in(peer), vmm.open_in(peer, false)};
  for (const Answer& there : imports) {
    ASSERT_OK(there);
    EXPECT_EQ(peer.sum(there.value, kBytes).value, sum_of(kPattern, kBytes));
    EXPECT_EQ(peer(Op::Copy, there.value, kBytes).value, sum_of(kPattern, kBytes));
    EXPECT_EQ(peer(Op::Copy2D, there.value, kBytes).value, sum_of(kPattern, kBytes));
  }
}

TEST(Accepted, SmallestVmmGranularity) {
  const Answer granularity = here()(Op::Granularity);
  ASSERT_OK(granularity);
  EXPECT_EQ(granularity.value, kBytes);
}

TEST(Accepted, NeighboursInABlockLeakToKernelsButNotToCopies) {
  Owned first(here(), false, kSmall);
  Owned second(here(), false, kSmall);
  ASSERT_OK(here()(Op::FillWords, second.address(), kSmall, kOther));
  if (first.address() / kBytes != second.address() / kBytes &&
      std::max(first.address(), second.address()) - std::min(first.address(), second.address()) >
          kSmall)
    GTEST_SKIP() << "the driver put the two into different blocks";
  Peer peer;
  const Answer there = first.open_in(peer);
  ASSERT_OK(there);
  const uint64_t neighbour = there.value + (second.address() - first.address());
  EXPECT_FALSE(peer(Op::Copy, neighbour, kSmall).ok());
  const Answer across = second.address() > first.address() ? peer(Op::Copy, there.value, 2 * kSmall)
                                                           : peer(Op::Copy, neighbour, 2 * kSmall);
  EXPECT_FALSE(across.ok());
  const Answer leaked = peer.scan(neighbour, kSmall, kOther);
  EXPECT_OK(leaked);
  EXPECT_EQ(leaked.value, kSmall / 8);
}

}  // namespace cudaipc::test

int main(int argc, char** argv) {
  cudaipc::test::serve_if_peer(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new cudaipc::test::OwnGpu);
  return RUN_ALL_TESTS();
}
