// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Messages: golden bytes, round trips, one test per broken field, cuts and mutations.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include "gst/wire/message.h"

namespace cudaipc::wire {
namespace {

const std::string kCapsText = "video/x-raw, format=(string)NV12";
const std::array<std::byte, 4> kMetas{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};

Slot slot_message() {
  Slot m;
  m.slot = 5;
  m.n_planes = 2;
  m.generation = 0x1122334455667788;
  m.size = 2 * kGranule;
  m.planes[0] = {0, 256 * 1080, 256, 0};
  m.planes[1] = {256 * 1080, 256 * 540, 256, 0};
  m.memory.fill(0xab);
  m.ready_event.fill(0xcd);
  return m;
}

Frame frame_message() {
  Frame m;
  m.slot = 7;
  m.caps_serial = 3;
  m.generation = 2;
  m.seq = 1000;
  m.pts = 1;
  m.dts = 2;
  m.duration = 3;
  m.offset = 4;
  m.offset_end = 5;
  m.capture_ns = 6;
  m.sent_ns = 7;
  m.dropped = 8;
  m.flags = 9;
  m.metas = kMetas;
  return m;
}

// One of each, with its descriptors.
struct Sample {
  Bytes bytes;
  size_t fds = 0;
};
std::map<std::string, Sample> samples() {
  std::map<std::string, Sample> all;
  Hello hello;
  hello.driver_version = 13000;
  hello.instance.fill(1);
  hello.device.fill(2);
  hello.gpu.fill(3);
  hello.ipc_mode = IpcMode::Legacy;
  hello.sync_modes = 7;
  hello.probe_event.fill(4);
  encode(hello, all["hello"].bytes);
  all["hello"].fds = 1;
  Join join;
  join.driver_version = 13000;
  join.instance.fill(5);
  join.device.fill(2);
  join.sync_modes = 5;
  encode(join, all["join"].bytes);
  encode(Welcome{SyncMode::Event, 4, 17}, all["welcome"].bytes);
  encode(Refused{Reason::Driver, 0, "no"}, all["refused"].bytes);
  encode(Caps{9, 0, kCapsText}, all["caps"].bytes);
  encode(slot_message(), all["slot"].bytes);
  all["slot"].fds = 1;
  encode(CloseSlot{5, 0, 6}, all["close-slot"].bytes);
  encode(SlotClosed{5, 0, 6}, all["slot-closed"].bytes);
  ReleaseEvent release{5, 0, 6, {}};
  release.event.fill(0xee);
  encode(release, all["release-event"].bytes);
  encode(frame_message(), all["frame"].bytes);
  Segment segment;
  segment.format = 3;
  segment.rate = 2.0;
  segment.start = 11;
  encode(segment, all["segment"].bytes);
  encode(Event{EventKind::Tag, 0, 1, 2, 3, 0, "taglist"}, all["event"].bytes);
  encode(Eos{99}, all["eos"].bytes);
  encode(Latency{40}, all["latency"].bytes);
  return all;
}

std::string hex(const Bytes& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    char digits[4];
    snprintf(digits, sizeof(digits), "%02x%c", static_cast<unsigned>(bytes[i]),
             i % 16 == 15 || i + 1 == bytes.size() ? '\n' : ' ');
    text += digits;
  }
  return text;
}

bool refused(const Bytes& bytes, size_t fds) {
  auto message = decode(bytes, fds);
  EXPECT_TRUE(message || message.error().fault == Fault::Protocol);
  return !message;
}

template <typename T>
void put(Bytes& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

constexpr size_t kBody = sizeof(Header);

TEST(Golden, BytesOfEveryMessageAreTheWireFormat) {
  for (const auto& [name, sample] : samples()) {
    const std::string path = std::string(GOLDEN_DIR) + "/" + name + ".hex";
    if (getenv("UPDATE_GOLDEN")) {
      std::ofstream(path) << hex(sample.bytes);
      continue;
    }
    std::ifstream file(path);
    const std::string expected{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(hex(sample.bytes), expected)
        << name << ": a layout changed. That needs a new protocol version.";
  }
}

TEST(RoundTrip, EveryMessageComesBackTheSame) {
  for (const auto& [name, sample] : samples()) {
    auto message = decode(sample.bytes, sample.fds);
    ASSERT_TRUE(message) << name << ": " << message.error().message;
    Bytes again;
    std::visit(
        [&](const auto& m) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(m)>, Unknown>)
            encode(m, again);
        },
        *message);
    EXPECT_EQ(again, sample.bytes) << name;
  }
}

TEST(RoundTrip, FieldsOfAFrame) {
  const Bytes bytes = samples()["frame"].bytes;
  auto message = decode(bytes, 0);
  const auto& m = std::get<Frame>(*message);
  EXPECT_EQ(m.slot, 7u);
  EXPECT_EQ(m.seq, 1000u);
  EXPECT_EQ(m.dropped, 8u);
  EXPECT_EQ(m.metas.size(), 4u);
  EXPECT_EQ(m.metas[3], std::byte{4});
}

TEST(Broken, AnyCutOfAnyMessage) {
  for (const auto& [name, sample] : samples()) {
    for (size_t n = 0; n < sample.bytes.size(); ++n)
      EXPECT_TRUE(refused(Bytes(sample.bytes.begin(), sample.bytes.begin() + static_cast<long>(n)),
                          sample.fds))
          << name << " cut at " << n;
  }
}

TEST(Broken, HeaderFields) {
  for (const auto& [name, sample] : samples()) {
    const auto with = [&](size_t at, auto value) {
      Bytes bytes = sample.bytes;
      put(bytes, at, value);
      return refused(bytes, sample.fds);
    };
    EXPECT_TRUE(with(0, uint32_t{0x12345678})) << name << ": magic";
    EXPECT_TRUE(with(4, uint16_t{0})) << name << ": type 0";
    EXPECT_TRUE(with(6, uint16_t{0xffff})) << name << ": body longer than the packet";
    EXPECT_TRUE(with(6, uint16_t{1})) << name << ": body too short";
    EXPECT_TRUE(with(8, static_cast<uint32_t>(sample.bytes.size() + 1))) << name << ": size";
    EXPECT_TRUE(with(12, uint32_t{1})) << name << ": padding";
  }
}

TEST(Broken, NumberOfDescriptors) {
  for (const auto& [name, sample] : samples()) {
    if (name == "slot")
      continue;  // one or none, by the ipc mode: the importer's to know
    EXPECT_TRUE(refused(sample.bytes, sample.fds + 1)) << name;
    if (sample.fds) {
      EXPECT_TRUE(refused(sample.bytes, 0)) << name;
    }
  }
  EXPECT_TRUE(refused(samples()["slot"].bytes, 2));
}

TEST(Broken, ATailWhereNoneBelongs) {
  for (const auto& [name, sample] : samples()) {
    Bytes bytes = sample.bytes;
    bytes.push_back(std::byte{0});
    put(bytes, 8, static_cast<uint32_t>(bytes.size()));
    EXPECT_TRUE(refused(bytes, sample.fds)) << name;
  }
}

TEST(Broken, OversizedPacket) {
  Bytes bytes = samples()["eos"].bytes;
  bytes.resize(kMaxPacket + 8);
  put(bytes, 8, static_cast<uint32_t>(bytes.size()));
  EXPECT_TRUE(refused(bytes, 0));
}

TEST(Versions, ALongerBodyOfANewerMinorIsRead) {
  const Bytes old = samples()["welcome"].bytes;
  Bytes bytes(old.begin(), old.end());
  bytes.resize(old.size() + 8, std::byte{0x55});
  put(bytes, 6, static_cast<uint16_t>(sizeof(Welcome) + 8));
  put(bytes, 8, static_cast<uint32_t>(bytes.size()));
  auto message = decode(bytes, 0);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Welcome>(*message).share, 4u);
}

TEST(Versions, AnUnknownTypeIsToBeSkipped) {
  Bytes bytes = samples()["eos"].bytes;
  put(bytes, 4, uint16_t{500});
  auto message = decode(bytes, 0);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Unknown>(*message).type, 500);
}

TEST(Versions, AnotherMajorIsReadFarEnoughToBeNamed) {
  Bytes bytes = samples()["hello"].bytes;
  put(bytes, kBody, uint16_t{9});
  put(bytes, kBody + offsetof(Hello, ipc_mode), uint32_t{77});
  auto message = decode(bytes, 1);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Hello>(*message).major, 9);
}

// Field by field: where, what, and the name of the rule.
struct Field {
  const char* message;
  size_t at;
  uint64_t value;
  size_t bytes;
};

class BrokenField : public testing::TestWithParam<Field> {};

TEST_P(BrokenField, IsRefused) {
  const Field& field = GetParam();
  const Sample sample = samples()[field.message];
  Bytes bytes = sample.bytes;
  std::memcpy(bytes.data() + kBody + field.at, &field.value, field.bytes);
  EXPECT_TRUE(refused(bytes, sample.fds)) << field.message << " at " << field.at;
}

constexpr size_t kPlane0 = offsetof(Slot, planes);
INSTANTIATE_TEST_SUITE_P(
    All, BrokenField,
    testing::Values(Field{"hello", offsetof(Hello, ipc_mode), 0, 4},
                    Field{"hello", offsetof(Hello, ipc_mode), 3, 4},
                    Field{"hello", offsetof(Hello, sync_modes), 0, 4},
                    Field{"join", offsetof(Join, zero), 1, 4},
                    Field{"welcome", offsetof(Welcome, sync_mode), 0, 4},
                    Field{"welcome", offsetof(Welcome, sync_mode), 3, 4},
                    Field{"welcome", offsetof(Welcome, share), 0, 4},
                    Field{"welcome", offsetof(Welcome, share), kMaxSlots + 1, 4},
                    Field{"refused", 4, 1, 4}, Field{"caps", 4, 1, 4}, Field{"caps", 4, ~0ull, 4},
                    Field{"caps", 8, 0, 1},  // NUL in the text
                    Field{"slot", offsetof(Slot, slot), kMaxSlots, 4},
                    Field{"slot", offsetof(Slot, n_planes), 0, 4},
                    Field{"slot", offsetof(Slot, n_planes), 5, 4},
                    Field{"slot", offsetof(Slot, n_planes), 1, 4},  // the second plane is left over
                    Field{"slot", offsetof(Slot, size), 0, 8},
                    Field{"slot", offsetof(Slot, size), 4096, 8},
                    Field{"slot", offsetof(Slot, size), kMaxAllocation + kGranule, 8},
                    Field{"slot", kPlane0 + offsetof(Plane, offset), 2 * kGranule, 8},
                    Field{"slot", kPlane0 + offsetof(Plane, offset), ~0ull, 8},
                    Field{"slot", kPlane0 + offsetof(Plane, size), 0, 8},
                    Field{"slot", kPlane0 + offsetof(Plane, size), 2 * kGranule + 1, 8},
                    Field{"slot", kPlane0 + offsetof(Plane, size), ~0ull, 8},
                    Field{"slot", kPlane0 + offsetof(Plane, stride), 0, 4},
                    Field{"slot", kPlane0 + offsetof(Plane, zero), 1, 4},
                    Field{"slot", offsetof(Slot, local), 2, 4},
                    Field{"slot", offsetof(Slot, zero), 1, 4}, Field{"close-slot", 0, kMaxSlots, 4},
                    Field{"close-slot", 4, 1, 4}, Field{"slot-closed", 0, kMaxSlots, 4},
                    Field{"slot-closed", 4, 1, 4}, Field{"release-event", 0, kMaxSlots, 4},
                    Field{"release-event", 4, 1, 4}, Field{"frame", 0, kMaxSlots, 4},
                    Field{"frame", 16, 0, 8}, Field{"frame", 16, ~0ull, 8},
                    Field{"frame", kFrameBody - 4, 3, 4}, Field{"frame", kFrameBody - 4, ~0ull, 4},
                    Field{"event", 0, 0, 4}, Field{"event", 0, 4, 4}, Field{"event", 4, 1, 4},
                    Field{"event", 28, 1, 4}, Field{"event", 32, 0, 1}));

TEST(Broken, TextOverItsLimit) {
  for (const auto& [name, limit] : {std::pair<std::string, size_t>{"refused", kMaxText},
                                    {"caps", kMaxCaps},
                                    {"event", kMaxEvent}}) {
    const Sample sample = samples()[name];
    Header header;
    std::memcpy(&header, sample.bytes.data(), sizeof(header));
    Bytes bytes(sample.bytes.begin(),
                sample.bytes.begin() + static_cast<long>(kBody + header.body));
    bytes.resize(bytes.size() + limit + 1, std::byte{'x'});
    put(bytes, 8, static_cast<uint32_t>(bytes.size()));
    put(bytes, kBody + 4, static_cast<uint32_t>(limit + 1));
    EXPECT_TRUE(refused(bytes, 0)) << name;
    bytes.pop_back();
    put(bytes, 8, static_cast<uint32_t>(bytes.size()));
    put(bytes, kBody + 4, static_cast<uint32_t>(limit));
    EXPECT_FALSE(refused(bytes, 0)) << name;
  }
}

TEST(Broken, AReasonThatIsTooLongIsCutWhenSent) {
  Bytes bytes;
  const std::string text(kMaxText + 100, 'x');
  encode(Refused{Reason::Bug, 0, text}, bytes);
  auto message = decode(bytes, 0);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Refused>(*message).text.size(), kMaxText);
}

TEST(Broken, MutationsNeverCrash) {
  std::mt19937 random(1);
  const auto all = samples();
  for (int i = 0; i < 100000; ++i) {
    auto it = all.begin();
    std::advance(it, static_cast<long>(random() % all.size()));
    Bytes bytes = it->second.bytes;
    for (unsigned k = 0; k < 1 + random() % 4; ++k)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    auto message = decode(bytes, it->second.fds);
    if (!message) {
      EXPECT_EQ(message.error().fault, Fault::Protocol);
    }
  }
}

}  // namespace
}  // namespace cudaipc::wire

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
