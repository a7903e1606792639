// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Reports reads and writes of the same bytes that nothing orders.
//
// Every allocation carries a table, shared like its bytes, of accesses that are enqueued and not
// yet done. Two overlapping accesses of which one writes are a violation when the later one is
// enqueued while the earlier is not done, unless the later one's stream comes behind the earlier's
// (vector clocks of this process), or must first wait for a word or a peer's event: then what
// counts is whether the earlier one is done when the later one runs.
#include <sys/mman.h>

#include <cstring>

#include "device.h"

namespace softcuda {

namespace {
constexpr size_t kEntries = 127;

struct Entry {
  std::atomic<uint64_t> process{0};  // 0: free
  std::atomic<uint64_t> stream{0}, seq{0}, begin{0}, end{0};
  std::atomic<uint32_t> write{0}, valid{0};
};
}  // namespace

struct RaceTable {
  Entry entries[kEntries];
};

namespace {

void check(Stream& stream, const Stream::Op& op, uint64_t seq, const char* when) {
  const uint64_t self = process_id();
  for (const Access& access : op.accesses) {
    for (Entry& entry : access.backing->table->entries) {
      const uint64_t owner = entry.process.load(std::memory_order_acquire);
      if (!owner || !entry.valid.load(std::memory_order_acquire))
        continue;
      if (!access.write && !entry.write.load())
        continue;
      if (entry.begin.load() >= access.end || entry.end.load() <= access.begin)
        continue;
      const uint64_t other_seq = entry.seq.load();
      if (owner == self) {
        const auto id = static_cast<uint32_t>(entry.stream.load());
        if (id == stream.id)
          continue;
        const auto known = op.clock.find(id);
        if (known != op.clock.end() && known->second >= other_seq)
          continue;
      } else if (!process_alive(owner)) {
        entry.process.store(0);
        continue;
      }
      if (entry.process.load() != owner || !entry.valid.load())
        continue;  // done meanwhile
      const bool wrote = entry.write.load() != 0;
      violation(std::string(access.write ? "write" : "read") + " of bytes " +
                std::to_string(access.begin) + " to " + std::to_string(access.end) +
                " (operation " + std::to_string(seq) + " of stream " + std::to_string(stream.id) +
                ", " + when + ") while " + (owner == self ? "another stream" : "another process") +
                " still " + (wrote ? "writes" : "reads") +
                " them: no event, semaphore or synchronisation orders the two");
      break;
    }
  }
}

}  // namespace

size_t race_table_bytes() {
  return (sizeof(RaceTable) + 4095) / 4096 * 4096;
}

RaceTable* map_race_table(int fd, size_t at) {
  void* memory = mmap(nullptr, race_table_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      static_cast<off_t>(at));
  return memory == MAP_FAILED ? nullptr : static_cast<RaceTable*>(memory);
}

void unmap_race_table(RaceTable* table) {
  if (table)
    munmap(table, race_table_bytes());
}

void race_begin(Stream& stream, Stream::Op& op, uint64_t seq) {
  if (op.accesses.empty())
    return;
  op.judged_late = stream.waits.load() != 0;
  if (!op.judged_late)
    check(stream, op, seq, "enqueued");
  for (const Access& access : op.accesses) {
    int taken = -1;
    for (size_t i = 0; i < kEntries && taken < 0; ++i) {
      Entry& entry = access.backing->table->entries[i];
      uint64_t none = 0;
      if (!entry.process.compare_exchange_strong(none, process_id()))
        continue;
      entry.stream.store(stream.id);
      entry.seq.store(seq);
      entry.begin.store(access.begin);
      entry.end.store(access.end);
      entry.write.store(access.write);
      entry.valid.store(1, std::memory_order_release);
      taken = static_cast<int>(i);
    }
    op.entries.push_back(taken);
  }
  op.slow = true;
}

void race_execute(Stream& stream, Stream::Op& op, uint64_t seq) {
  // Where nothing external was waited for, the enqueue said it all: what was enqueued since is
  // judged by its own enqueue.
  if (op.accesses.empty() || !op.judged_late)
    return;
  check(stream, op, seq, "running");
}

void race_end(Stream::Op& op) {
  for (size_t i = 0; i < op.entries.size(); ++i) {
    if (op.entries[i] < 0)
      continue;
    Entry& entry = op.accesses[i].backing->table->entries[op.entries[i]];
    entry.valid.store(0, std::memory_order_release);
    entry.process.store(0, std::memory_order_release);
  }
}

}  // namespace softcuda
