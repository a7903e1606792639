// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Who survives whom: processes that are killed, memory that is freed, reads that do not wait.
#include <memory>

#include "conformance.h"

namespace cudaipc::test {
namespace {

constexpr uint64_t kLong = 10'000'000'000;  // nanoseconds: a kernel that will not end in time

// A producer that is killed while an event it recorded is incomplete, and its consumer.
class KilledProducer : public testing::Test {
 protected:
  void SetUp() override {
    memory_ = std::make_unique<Owned>(producer_, false);
    const Answer there = memory_->open_in(consumer_);
    ASSERT_OK(there);
    there_ = there.value;
    const Answer event = producer_(Op::CreateEvent);
    ASSERT_OK(event);
    ASSERT_OK(producer_(Op::Delay, kLong));
    ASSERT_OK(producer_(Op::RecordEvent, event.value));
    const Answer opened = consumer_(Op::OpenEvent, event.handle);
    ASSERT_OK(opened);
    event_ = opened.value;
    EXPECT_CUDA(CUDA_ERROR_NOT_READY, consumer_(Op::QueryEvent, event_));
    memory_->forget();
    producer_.kill();
  }

  void wait_on_stream() { ASSERT_OK(consumer_(Op::WaitEvent, event_)); }

  Peer producer_, consumer_;
  std::unique_ptr<Owned> memory_;
  uint64_t there_ = 0, event_ = 0;
};

TEST_F(KilledProducer, EventStaysIncomplete) {
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, consumer_(Op::QueryEvent, event_));
  sleep_ms(1000);
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, consumer_(Op::QueryEvent, event_));
}

TEST_F(KilledProducer, StreamThatWaitsNeverFinishesButCanBeDestroyed) {
  wait_on_stream();
  sleep_ms(1000);
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, consumer_(Op::QueryStream));
  EXPECT_OK(consumer_(Op::DestroyStream));
}

TEST_F(KilledProducer, SynchronizingTheContextHangs) {
  wait_on_stream();
  consumer_.set_patience(2000);
  EXPECT_EQ("hung", consumer_(Op::SyncContext).result());
}

TEST_F(KilledProducer, ClosingAMemoryHandleHangs) {
  wait_on_stream();
  consumer_.set_patience(2000);
  EXPECT_EQ("hung", consumer_(Op::CloseLegacy, there_).result());
}

TEST(Survival, CpuReleasesAStreamThatWaitsForAKilledProducer) {
  Peer producer, consumer;
  const UniqueFd page = new_page();
  ASSERT_OK(producer(Op::MapPage, page));
  ASSERT_OK(consumer(Op::MapPage, page));
  ASSERT_OK(producer(Op::Delay, kLong));
  ASSERT_OK(producer(Op::WriteValue, 0, 1));
  ASSERT_OK(consumer(Op::WaitValue, 0, 1));
  producer.kill();
  sleep_ms(200);
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, consumer(Op::QueryStream));
  ASSERT_OK(consumer(Op::StorePage, 0, 1));
  EXPECT_OK(consumer(Op::Synchronize));
}

TEST(Survival, MemoryOutlivesItsKilledProducer) {
  for (const bool vmm : {false, true}) {
    SCOPED_TRACE(vmm ? "VMM" : "legacy");
    Peer producer, consumer;
    Owned memory(producer, vmm);
    const Answer there = memory.open_in(consumer);
    ASSERT_OK(there);
    memory.forget();
    producer.kill();
    const Answer sum = consumer.sum(there.value, kBytes);
    EXPECT_OK(sum);
    EXPECT_EQ(sum.value, sum_of(kPattern, kBytes));
    EXPECT_OK(memory.close_in(consumer, there.value));
  }
}

TEST(Survival, ProducerOutlivesAConsumerKilledWhileItReads) {
  for (const bool vmm : {false, true}) {
    SCOPED_TRACE(vmm ? "VMM" : "legacy");
    Peer producer, consumer;
    Owned memory(producer, vmm);
    const Answer there = memory.open_in(consumer);
    ASSERT_OK(there);
    const Answer event = consumer(Op::CreateEvent);
    ASSERT_OK(event);
    ASSERT_OK(consumer(Op::Delay, kLong));
    ASSERT_OK(consumer(Op::Sum, there.value, kBytes));
    ASSERT_OK(consumer(Op::RecordEvent, event.value));
    const Answer release = producer(Op::OpenEvent, event.handle);
    ASSERT_OK(release);
    consumer.kill();
    sleep_ms(500);
    EXPECT_CUDA(CUDA_ERROR_NOT_READY, producer(Op::QueryEvent, release.value));
    EXPECT_EQ(producer.sum(memory.address(), kBytes).value, sum_of(kPattern, kBytes));
    EXPECT_OK(producer(Op::SyncContext));
    EXPECT_OK(memory.free());
  }
}

TEST(Survival, FreedMemoryStaysWithItsImporter) {
  Peer peer;
  Owned memory(here(), false);
  const Answer there = memory.open_in(peer);
  ASSERT_OK(there);
  EXPECT_OK(memory.free());
  EXPECT_EQ(peer.sum(there.value, kBytes).value, sum_of(kPattern, kBytes));
  Owned next(here(), false);
  ASSERT_OK(here().fill(next.address(), kBytes, 0));
  EXPECT_EQ(peer.sum(there.value, kBytes).value, sum_of(kPattern, kBytes));
  EXPECT_EQ(here().sum(next.address(), kBytes).value, 0u);
  EXPECT_OK(peer(Op::CloseLegacy, there.value));
}

// The control that proves that waits matter: the same read with none, a semaphore, an event.
class Wait : public testing::TestWithParam<const char*> {};

TEST_P(Wait, DecidesWhatAReadSees) {
  const std::string how = GetParam();
  Peer peer;
  const UniqueFd page = new_page();
  Owned memory(here(), false);
  const Answer there = memory.open_in(peer);
  ASSERT_OK(there);
  const Answer event = here()(Op::CreateEvent);
  ASSERT_OK(event);
  const Answer opened = peer(Op::OpenEvent, event.handle);
  ASSERT_OK(opened);
  ASSERT_OK(here()(Op::MapPage, page));
  ASSERT_OK(peer(Op::MapPage, page));
  ASSERT_OK(here().fill(memory.address(), kBytes, 1));
  ASSERT_OK(peer.sum(there.value, kBytes));  // the first launch of a kernel takes long

  ASSERT_OK(here()(Op::Delay, 300'000'000));
  ASSERT_OK(here()(Op::Fill, memory.address(), kBytes, 2));
  ASSERT_OK(here()(Op::WriteValue, 0, 1));
  ASSERT_OK(here()(Op::RecordEvent, event.value));
  if (how == "semaphore") {
    ASSERT_OK(peer(Op::WaitValue, 0, 1));
  } else if (how == "event") {
    ASSERT_OK(poll_ready([&] { return peer(Op::QueryEvent, opened.value); }));
  }
  const Answer seen = peer.sum(there.value, kBytes);
  ASSERT_OK(seen);
  EXPECT_EQ(seen.value, (how == "none" ? 1 : 2) * kBytes);
  EXPECT_OK(here()(Op::Synchronize));
  EXPECT_OK(here()(Op::DestroyEvent, event.value));
}

INSTANTIATE_TEST_SUITE_P(Survival, Wait, testing::Values("none", "semaphore", "event"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace cudaipc::test
