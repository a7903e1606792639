// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Exporter and importer in two processes: cycles, hostile peers, deaths.
#include <sys/mman.h>

#include <fstream>

#include "tests/unit/share_support.h"

namespace cudaipc::test {
namespace {

using std::chrono::steady_clock;

// Offers one frame from a generation.
void offer(Exporter& exporter, Exporter::Generation& generation) {
  auto slot = generation.acquire();
  ASSERT_TRUE(slot) << slot.error().message;
  ASSERT_TRUE(*slot);
  wire::Frame frame;
  auto offered = exporter.offer(*slot, frame, CU_STREAM_LEGACY);
  ASSERT_TRUE(offered) << offered.error().message;
  generation.release(**slot);
}

// The next frame; anything else is skipped.
Result<ImportedFrame> next_frame(Importer& importer) {
  for (;;) {
    auto incoming = importer.next();
    if (!incoming)
      return std::move(incoming.error());
    if (auto* frame = std::get_if<ImportedFrame>(&*incoming)) {
      if (auto ready = importer.wait_ready(*frame); !ready)
        return std::move(ready.error());
      return std::move(*frame);
    }
  }
}

// --- Consumer processes

// Attaches and detaches `count` times, each time after some frames. 0: nothing was left behind.
int cycle(const std::string& address, int count) {
  auto context = make_context();
  Resources before;
  for (int i = 0; i <= count; ++i) {
    // The first cycle is the warm-up.
    if (i == 1)
      before = Resources::now();
    auto importer = make_importer(context);
    if (auto connected = connect(*importer, address); !connected) {
      fprintf(stderr, "%s\n", connected.error().message.c_str());
      return 1;
    }
    for (int frames = 0; frames < 3; ++frames) {
      auto frame = next_frame(*importer);
      if (!frame) {
        fprintf(stderr, "%s\n", frame.error().message.c_str());
        return 2;
      }
      frame->release(CU_STREAM_LEGACY);
    }
  }
  const Resources after = Resources::now();
  if (after == before)
    return 0;
  std::cerr << "before: " << before << "\nafter:  " << after << "\n";
  return 3;
}

// Reads `count` frames and compares what is left with the start. 0: nothing.
int follow(const std::string& address, int count) {
  auto context = make_context();
  const Resources before = Resources::now();
  {
    auto importer = make_importer(context);
    if (!connect(*importer, address))
      return 1;
    for (int i = 0; i < count; ++i) {
      auto frame = next_frame(*importer);
      if (!frame) {
        fprintf(stderr, "%s\n", frame.error().message.c_str());
        return 2;
      }
      frame->release(CU_STREAM_LEGACY);
    }
  }
  const Resources after = Resources::now();
  if (after == before)
    return 0;
  std::cerr << "before: " << before << "\nafter:  " << after << "\n";
  return 3;
}

// Takes frames and keeps them until it is killed.
int hoard(const std::string& address) {
  auto context = make_context();
  auto importer = make_importer(context);
  if (!connect(*importer, address))
    return 1;
  std::vector<ImportedFrame> kept;
  for (;;) {
    auto frame = next_frame(*importer);
    if (!frame)
      return 2;
    kept.push_back(std::move(*frame));
  }
}

// Prints why it could not connect.
int fail_to_connect(const std::string& address, const std::string& file) {
  auto importer = make_importer(make_context());
  auto connected = connect(*importer, address);
  std::ofstream(file) << (connected ? "connected" : connected.error().message);
  return connected ? 1 : 0;
}

// Connects, waits for the file `go`, and takes what is in the socket up to the end of the stream.
// 0: `count` frames.
int late(const std::string& address, const std::string& go, int count) {
  auto importer = make_importer(make_context());
  if (!connect(*importer, address))
    return 1;
  while (!std::filesystem::exists(go))
    usleep(1000);
  int frames = 0;
  for (;;) {
    auto incoming = importer->next();
    if (!incoming) {
      fprintf(stderr, "%s\n", incoming.error().message.c_str());
      return 2;
    }
    if (std::holds_alternative<wire::Eos>(*incoming))
      return frames == count ? 0 : 3;
    if (auto* frame = std::get_if<ImportedFrame>(&*incoming)) {
      if (auto ready = importer->wait_ready(*frame); !ready) {
        fprintf(stderr, "%s\n", ready.error().message.c_str());
        return 4;
      }
      ++frames;
    }
  }
}

int peer(const std::vector<std::string>& a) {
  if (a[0] == "late")
    return late(a[1], a[2], std::stoi(a[3]));
  if (a[0] == "cycle")
    return cycle(a[1], std::stoi(a[2]));
  if (a[0] == "follow")
    return follow(a[1], std::stoi(a[2]));
  if (a[0] == "hoard")
    return hoard(a[1]);
  if (a[0] == "fail-to-connect")
    return fail_to_connect(a[1], a[2]);
  return 99;
}

// --- Leaks

struct Modes {
  MemoryKind memory;
  wire::SyncMode sync;
};

class Leaks : public testing::TestWithParam<Modes> {};

INSTANTIATE_TEST_SUITE_P(AllModes, Leaks,
                         testing::Values(Modes{MemoryKind::Vmm, wire::SyncMode::Semaphore},
                                         Modes{MemoryKind::Vmm, wire::SyncMode::Event},
                                         Modes{MemoryKind::Vmm, wire::SyncMode::Host},
                                         Modes{MemoryKind::Legacy, wire::SyncMode::Semaphore},
                                         Modes{MemoryKind::Legacy, wire::SyncMode::Event},
                                         Modes{MemoryKind::Legacy, wire::SyncMode::Host}));

TEST_P(Leaks, TwoHundredAttachCyclesLeaveNothing) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  auto exporter = make_exporter(context, dir / "s", {GetParam().memory, GetParam().sync});
  auto generation = exporter->new_generation(plain_layout(100000));
  make_all_slots(*generation);
  const auto serve = [&](int cycles) {
    const pid_t child = spawn({"cycle", dir / "s", std::to_string(cycles)});
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0)
      offer(*exporter, *generation);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    wait_until([&] { return exporter->num_consumers() == 0; });
  };
  serve(20);
  // Objects of the last consumer go right after it was counted out.
  Resources before;
  wait_until([&] {
    const Resources one = Resources::now();
    usleep(20000);
    before = Resources::now();
    return one == before;
  });
  serve(200);
  Resources after;
  wait_until([&] {
    const Resources one = Resources::now();
    usleep(20000);
    after = Resources::now();
    return one == after;
  });
  EXPECT_EQ(before, after);
  generation.reset();
  exporter->stop();
}

TEST_P(Leaks, TwoHundredCapsChangesLeaveNothing) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  auto exporter = make_exporter(context, dir / "s", {GetParam().memory, GetParam().sync});
  constexpr int kChanges = 200, kFramesEach = 3;
  const pid_t child = spawn({"follow", dir / "s", std::to_string((kChanges + 1) * kFramesEach)});
  wait_until([&] { return exporter->num_consumers() == 1; });
  Resources before;
  uint32_t most = 0;
  for (int i = 0; i <= kChanges; ++i) {
    auto generation = exporter->new_generation(plain_layout(100000 + 4096 * (i % 7)));
    ASSERT_TRUE(exporter->set_caps("caps " + std::to_string(i)));
    for (int k = 0; k < kFramesEach; ++k)
      offer(*exporter, *generation);
    most = std::max(most, exporter->stats().slots);
  }
  EXPECT_LE(most, 8u);
  EXPECT_EQ(wait_for(child), 0);
  wait_until([&] { return exporter->num_consumers() == 0 && exporter->stats().slots == 0; });
  exporter->stop();
  exporter.reset();
  EXPECT_EQ(Resources::now().memory, 0u);
  EXPECT_EQ(Resources::now().objects, 1u);  // the context
}

// --- Deaths

// In the other processes' descriptors; legacy memory ends with the sink that made it.
TEST(Deaths, FramesSentBeforeTheSinkStoppedAllArrive) {
  Watchdog watchdog;
  for (const auto sync : {wire::SyncMode::Semaphore, wire::SyncMode::Event, wire::SyncMode::Host}) {
    TempDir dir;
    auto exporter = make_exporter(make_context(), dir / "s", {MemoryKind::Vmm, sync});
    auto generation = exporter->new_generation(plain_layout(100000));
    ASSERT_TRUE(exporter->set_caps("caps"));
    constexpr int kFrames = 4;
    const pid_t child = spawn({"late", dir / "s", dir / "go", std::to_string(kFrames)});
    wait_until([&] { return exporter->num_consumers() == 1; });
    for (int i = 0; i < kFrames; ++i)
      offer(*exporter, *generation);
    exporter->eos();
    generation.reset();
    exporter->stop();
    std::ofstream(dir / "go") << "go";
    EXPECT_EQ(wait_for(child), 0) << static_cast<int>(sync);
  }
}

TEST(Deaths, AKilledConsumersSlotsAreBackWithin100ms) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  auto exporter = make_exporter(
      context, dir / "s", {MemoryKind::Vmm, wire::SyncMode::Semaphore, 8, SlowConsumer::Drop});
  auto generation = exporter->new_generation(plain_layout(100000));
  for (int round = 0; round < 10; ++round) {
    const pid_t child = spawn({"hoard", dir / "s"});
    wait_until([&] {
      offer(*exporter, *generation);
      const auto stats = exporter->stats();
      return stats.consumers.size() == 1 && stats.consumers[0].dropped_share > 3;
    });
    EXPECT_EQ(exporter->stats().consumers[0].held, 6u);
    kill(child, SIGKILL);
    const auto killed = steady_clock::now();
    wait_for(child);
    wait_until([&] { return exporter->stats().consumers.empty(); });
    EXPECT_LT(steady_clock::now() - killed, std::chrono::milliseconds(100));
  }
  const auto stats = exporter->stats();
  EXPECT_EQ(stats.departed.offered, stats.departed.sent + stats.departed.dropped());
}

TEST(Deaths, AStoppedConsumerCostsTheOthersNothing) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  auto exporter = make_exporter(
      context, dir / "s", {MemoryKind::Vmm, wire::SyncMode::Semaphore, 12, SlowConsumer::Drop});
  auto generation = exporter->new_generation(plain_layout(100000));
  const pid_t stopped = spawn({"hoard", dir / "s"});
  wait_until([&] { return exporter->num_consumers() == 1; });
  kill(stopped, SIGSTOP);
  auto importer = make_importer(context);
  ASSERT_TRUE(connect(*importer, dir / "s"));
  for (int i = 0; i < 500; ++i) {
    offer(*exporter, *generation);
    auto frame = next_frame(*importer);
    ASSERT_TRUE(frame) << frame.error().message;
    EXPECT_EQ(frame->info().dropped, 0u);
    frame->release(CU_STREAM_LEGACY);
  }
  importer.reset();
  const auto start = steady_clock::now();
  exporter->stop();
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(1));
  kill(stopped, SIGKILL);
  wait_for(stopped);
}

TEST(Deaths, AFrameInFlightWhenTheSinkDiesIsAnError) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  // A sink made by hand: it says that a frame is there, and dies before it is complete.
  auto address = Address::parse(dir / "s");
  auto listener = Listener::bind(*address);
  auto importer = make_importer(context);
  std::thread sink([&] {
    std::optional<Channel> channel;
    wait_until([&] {
      auto accepted = listener->accept();
      channel = std::move(*accepted);
      return channel.has_value();
    });
    auto page = SharedPage::create();
    wire::Hello hello;
    hello.driver_version = static_cast<uint32_t>(cu().version);
    hello.sync_modes = static_cast<uint32_t>(wire::SyncMode::Semaphore);
    wire::Bytes packet;
    wire::encode(hello, packet);
    channel->send(packet, page->fd());
    Packet join;
    wait_until([&] { return channel->receive(join) == Received::Yes; });
    wire::Welcome welcome{wire::SyncMode::Semaphore, 2, 1};
    wire::encode(welcome, packet);
    channel->send(packet);
    auto memory = Allocation::create(context, MemoryKind::Vmm, 1);
    wire::Slot slot;
    slot.n_planes = 1;
    slot.generation = 1;
    slot.size = memory->size();
    slot.planes[0] = {0, 1000, 256, 0};
    wire::encode(slot, packet);
    channel->send(packet, memory->descriptor());
    wire::Frame frame;
    frame.generation = 1;
    frame.seq = 1;
    wire::encode(frame, packet);
    channel->send(packet);
  });
  ASSERT_TRUE(connect(*importer, dir / "s"));
  auto frame = next_frame(*importer);
  sink.join();
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().fault, Fault::Closed);
  EXPECT_EQ(importer->stats().abandoned, 1u);
}

// --- Versions

std::string why_not(const std::string& address, const std::string& variable) {
  TempDir dir;
  const pid_t child = spawn({"fail-to-connect", address, dir / "why"}, {variable});
  EXPECT_EQ(wait_for(child), 0);
  std::ifstream file(dir / "why");
  std::string text;
  std::getline(file, text);
  return text;
}

TEST(Versions, AnotherDriverVersionIsNamedByBothNumbers) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  auto exporter = make_exporter(context, dir / "s");
  const std::string why = why_not(dir / "s", "SOFTCUDA_DRIVER_VERSION=12040");
  EXPECT_NE(why.find("13.0"), why.npos) << why;
  EXPECT_NE(why.find("12.4"), why.npos) << why;
}

TEST(Versions, IpcEventsThatCannotBeOpenedAreNamedWithTheCure) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  auto exporter = make_exporter(context, dir / "s", {MemoryKind::Vmm, wire::SyncMode::Event});
  const std::string why = why_not(dir / "s", "SOFTCUDA_DISABLE=ipc-events-refused");
  EXPECT_NE(why.find("sync-mode=auto"), why.npos) << why;
  EXPECT_NE(why.find("/dev/shm"), why.npos) << why;
}

TEST(Versions, AnotherProtocolVersionIsNamedByBothNumbers) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  auto exporter = make_exporter(context, dir / "s");
  auto address = Address::parse(dir / "s");
  auto channel = Channel::connect(*address);
  ASSERT_TRUE(channel);
  Packet packet;
  wait_until([&] { return channel->receive(packet) == Received::Yes; });
  wire::Join join;
  join.major = 7;
  wire::Bytes bytes;
  wire::encode(join, bytes);
  channel->send(bytes);
  wait_until([&] { return channel->receive(packet) == Received::Yes; });
  auto message = wire::decode(packet.bytes(), packet.n_fds);
  ASSERT_TRUE(message);
  const auto* refused = std::get_if<wire::Refused>(&*message);
  ASSERT_TRUE(refused);
  EXPECT_NE(refused->text.find('7'), refused->text.npos);
  EXPECT_NE(refused->text.find('1'), refused->text.npos);
  wait_until([&] { return channel->receive(packet) == Received::Closed; });
}

// --- Hostile peers

// A connection that got as far as Hello.
Channel greeted(const std::string& address) {
  auto parsed = Address::parse(address);
  auto channel = Channel::connect(*parsed);
  Packet packet;
  wait_until([&] { return channel->receive(packet) == Received::Yes; });
  return std::move(*channel);
}

void expect_closed(Channel& channel) {
  Packet packet;
  Received received;
  do {
    received = channel.receive(packet);
    usleep(500);
  } while (received == Received::Yes || received == Received::Nothing);
  EXPECT_EQ(received, Received::Closed);
}

TEST(Hostile, ABadConsumerCostsItsOwnConnectionOnly) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  auto exporter = make_exporter(context, dir / "s");
  auto generation = exporter->new_generation(plain_layout(100000));
  auto good = make_importer(context);
  ASSERT_TRUE(connect(*good, dir / "s"));
  const auto still_served = [&] {
    offer(*exporter, *generation);
    auto frame = next_frame(*good);
    ASSERT_TRUE(frame) << frame.error().message;
    frame->release(CU_STREAM_LEGACY);
  };
  wire::Bytes bytes;
  const auto join = [&] {
    wire::Join message;
    message.driver_version = static_cast<uint32_t>(cu().version);
    message.device = exporter->config().device.uuid;
    message.sync_modes = static_cast<uint32_t>(wire::SyncMode::Semaphore);
    wire::encode(message, bytes);
  };
  std::vector<std::function<void(Channel&)>> attacks{
      [&](Channel& c) { c.send(std::as_bytes(std::span("garbage"))); },
      [&](Channel& c) {
        wire::encode(wire::SlotClosed{0, 0, 1}, bytes);  // before Join
        c.send(bytes);
      },
      [&](Channel& c) {
        join();
        bytes.resize(bytes.size() - 1);
        c.send(bytes);
      },
      [&](Channel& c) {
        join();
        c.send(bytes);
        c.send(bytes);  // twice
      },
      [&](Channel& c) {
        join();
        c.send(bytes, c.fd());  // with a descriptor
      },
      [&](Channel& c) {
        join();
        c.send(bytes);
        wire::Frame frame;
        frame.seq = 1;
        wire::encode(frame, bytes);  // the wrong way
        c.send(bytes);
      },
      [&](Channel& c) {
        join();
        c.send(bytes);
        wire::encode(wire::ReleaseEvent{1, 0, 1, {}}, bytes);  // not in event mode
        c.send(bytes);
      },
      [&](Channel& c) {
        wire::Join message;
        message.driver_version = static_cast<uint32_t>(cu().version);
        message.device = exporter->config().device.uuid;
        message.sync_modes = 8;  // a mode that does not exist
        wire::encode(message, bytes);
        c.send(bytes);
      },
      [&](Channel& c) {
        const std::vector<std::byte> big(60000);
        c.send(big);
      },
  };
  // Every slot exists and is known to the good one before anything is counted.
  make_all_slots(*generation);
  for (int i = 0; i < 8; ++i)
    still_served();
  const size_t descriptors = open_descriptors();
  for (const auto& attack : attacks) {
    Channel channel = greeted(dir / "s");
    attack(channel);
    expect_closed(channel);
    still_served();
  }
  wait_until([&] { return open_descriptors() == descriptors; });
}

TEST(Hostile, AConsumerThatWritesNonsenseIntoItsPageHurtsNobody) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  auto exporter = make_exporter(
      context, dir / "s", {MemoryKind::Vmm, wire::SyncMode::Semaphore, 8, SlowConsumer::Drop});
  auto generation = exporter->new_generation(plain_layout(100000));
  auto parsed = Address::parse(dir / "s");
  auto channel = Channel::connect(*parsed);
  Packet packet;
  wait_until([&] { return channel->receive(packet) == Received::Yes; });
  auto page = SharedPage::open(std::move(packet.fd));
  ASSERT_TRUE(page);
  // It cannot be resized under the sink's feet.
  EXPECT_NE(ftruncate(page->fd(), 0), 0);
  wire::Join message;
  message.driver_version = static_cast<uint32_t>(cu().version);
  message.device = exporter->config().device.uuid;
  message.sync_modes = static_cast<uint32_t>(wire::SyncMode::Semaphore);
  wire::Bytes bytes;
  wire::encode(message, bytes);
  channel->send(bytes);
  wait_until([&] { return exporter->num_consumers() == 1; });
  for (int i = 0; i < 200; ++i) {
    for (uint32_t slot = 0; slot < wire::kMaxSlots; ++slot) {
      page->set_ready(slot, ~0ull - static_cast<uint64_t>(i));
      page->set_released(slot, static_cast<uint64_t>(i) * 7919);
    }
    offer(*exporter, *generation);
  }
  EXPECT_LE(exporter->stats().consumers[0].held, 6u);
}

TEST(Hostile, ABadSinkIsAnErrorAndLeavesNothing) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  auto address = Address::parse(dir / "s");
  auto listener = Listener::bind(*address);
  ASSERT_TRUE(listener);
  wire::Bytes bytes;
  auto page = SharedPage::create();
  wire::Hello hello;
  hello.driver_version = static_cast<uint32_t>(cu().version);
  hello.sync_modes = static_cast<uint32_t>(wire::SyncMode::Semaphore);
  const auto say_hello = [&](Channel& c, int fd) {
    wire::encode(hello, bytes);
    c.send(bytes, fd);
  };
  const auto welcome = [&](Channel& c) {
    say_hello(c, page->fd());
    wire::encode(wire::Welcome{wire::SyncMode::Semaphore, 2, 1}, bytes);
    c.send(bytes);
  };
  UniqueFd small(memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  auto memory = Allocation::create(context, MemoryKind::Vmm, 1);
  const auto slot = [&](Channel& c, uint64_t size, int fd) {
    wire::Slot message;
    message.n_planes = 1;
    message.generation = 1;
    message.size = size;
    message.planes[0] = {0, 1000, 256, 0};
    wire::encode(message, bytes);
    c.send(bytes, fd);
  };
  const auto frame = [&](Channel& c, uint64_t seq, uint64_t generation) {
    wire::Frame message;
    message.seq = seq;
    message.generation = generation;
    wire::encode(message, bytes);
    c.send(bytes);
  };
  std::vector<std::function<void(Channel&)>> attacks{
      [&](Channel& c) { c.send(std::as_bytes(std::span("garbage"))); },
      [&](Channel& c) { say_hello(c, -1); },
      [&](Channel& c) { say_hello(c, small.get()); },  // a page that can shrink, of no size
      [&](Channel& c) {
        wire::encode(wire::Welcome{}, bytes);  // before Hello
        c.send(bytes);
      },
      [&](Channel& c) {
        say_hello(c, page->fd());
        wire::encode(wire::Welcome{wire::SyncMode::Event, 2, 1}, bytes);  // not what was offered
        c.send(bytes);
      },
      [&](Channel& c) {
        welcome(c);
        slot(c, memory->size() * 4, memory->descriptor());  // larger than the memory is
      },
      [&](Channel& c) {
        welcome(c);
        slot(c, memory->size(), small.get());  // no CUDA memory at all
      },
      [&](Channel& c) {
        welcome(c);
        slot(c, memory->size(), -1);
      },
      [&](Channel& c) {
        welcome(c);
        slot(c, memory->size(), memory->descriptor());
        slot(c, memory->size(), memory->descriptor());  // twice
      },
      [&](Channel& c) {
        welcome(c);
        frame(c, 1, 1);  // in a slot that was not announced
      },
      [&](Channel& c) {
        welcome(c);
        slot(c, memory->size(), memory->descriptor());
        frame(c, 1, 2);  // of another generation
      },
      [&](Channel& c) {
        welcome(c);
        wire::encode(wire::CloseSlot{3, 0, 1}, bytes);
        c.send(bytes);
      },
      [&](Channel& c) {
        welcome(c);
        wire::encode(wire::SlotClosed{3, 0, 1}, bytes);  // the wrong way
        c.send(bytes);
      },
  };
  const Resources before = Resources::now();
  for (size_t i = 0; i < attacks.size(); ++i) {
    std::thread sink([&] {
      std::optional<Channel> channel;
      wait_until([&] {
        auto accepted = listener->accept();
        channel = std::move(*accepted);
        return channel.has_value();
      });
      attacks[i](*channel);
    });
    auto importer = make_importer(context);
    auto connected = connect(*importer, dir / "s", std::chrono::seconds(0));
    sink.join();
    if (connected) {
      auto incoming = importer->next();
      EXPECT_FALSE(incoming) << "attack " << i;
    } else {
      EXPECT_NE(connected.error().fault, Fault::Timeout) << "attack " << i;
    }
    importer.reset();
  }
  EXPECT_EQ(Resources::now(), before);
}

TEST(Share, BlockLosesNothingAndDropCountsEverything) {
  Watchdog watchdog;
  TempDir dir;
  auto context = make_context();
  for (const auto policy : {SlowConsumer::Block, SlowConsumer::Drop}) {
    auto exporter =
        make_exporter(context, dir / "s", {MemoryKind::Vmm, wire::SyncMode::Semaphore, 4, policy});
    auto generation = exporter->new_generation(plain_layout(100000));
    auto importer = make_importer(context);
    ASSERT_TRUE(connect(*importer, dir / "s"));
    std::atomic<bool> over{false};
    uint64_t received = 0, gaps = 0, last = 0;
    std::thread reader([&] {
      while (!over.load() || received == 0) {
        auto frame = next_frame(*importer);
        if (!frame)
          break;
        ++received;
        gaps += frame->info().seq - last - 1;
        last = frame->info().seq;
        frame->release(CU_STREAM_LEGACY);
      }
    });
    for (int i = 0; i < 2000; ++i)
      offer(*exporter, *generation);
    wait_until([&] { return exporter->stats().consumers[0].held == 0; });
    const ConsumerStats stats = exporter->stats().consumers[0];
    over.store(true);
    importer->cancel(true);
    reader.join();
    EXPECT_EQ(stats.offered, 2000u);
    EXPECT_EQ(stats.offered, stats.sent + stats.dropped());
    EXPECT_EQ(stats.sent, received);
    if (policy == SlowConsumer::Block) {
      EXPECT_EQ(received, 2000u);
      EXPECT_EQ(gaps, 0u);
    }
    importer.reset();
    generation.reset();
    exporter->stop();
  }
}

}  // namespace
}  // namespace cudaipc::test

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "--peer")
    return cudaipc::test::peer({argv + 2, argv + argc});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
