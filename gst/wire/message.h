// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Every message of the conversation, every limit, and the way to and from bytes.
//
// The conversation (docs/protocol.md draws the bytes). One message is one SOCK_SEQPACKET packet;
// descriptors travel with the packet that needs them.
//
//   sink                                             source
//     |  (checks SO_PEERCRED)                           |
//     |-- Hello {who, device, what is offered} [page] ->|  tries what is offered, for real
//     |<- Join {who, device, what works} ---------------|
//     |-- Welcome {what was chosen} ------------------->|  or Refused {why}, either way
//     |-- Caps, Segment, Event... --------------------->|  sticky state, in stream order
//     |-- Slot {memory, layout} [vmm descriptor] ------>|  once per slot: opened and kept
//     |<- ReleaseEvent {slot, event handle} ------------|  sync-mode=event only, once per slot
//     |-- Frame {slot, times} ------------------------->|  the only message of a frame
//     |            (release: a word in the page)        |
//     |-- CloseSlot {slot} ---------------------------->|  its caps ended; no frame will use it
//     |<- SlotClosed {slot} ----------------------------|  mapping closed, memory may be freed
//     |-- Eos, then perhaps Segment, Frame again ------>|
//
// Nothing here calls the system, CUDA or GStreamer: handles are opaque bytes. Decoded text and
// blobs are views into the packet the caller holds, so that a frame costs no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "gst/base/error.h"

namespace cudaipc::wire {

// Bytes "CIPC" in memory. A change of any layout below needs a new kMajor, an addition at the end
// of a body a new kMinor: readers skip what they do not know.
inline constexpr uint32_t kMagic = 0x43504943;
inline constexpr uint16_t kMajor = 1;
inline constexpr uint16_t kMinor = 0;

inline constexpr size_t kMaxPacket = 64 * 1024;  // below the default SO_SNDBUF of 208 KiB
inline constexpr size_t kMaxFds = 1;             // per packet
inline constexpr size_t kMaxCaps = 48 * 1024;    // bytes of a caps string
inline constexpr size_t kMaxText = 1024;         // bytes of a reason
inline constexpr size_t kMaxEvent = 48 * 1024;   // bytes of a serialised event
inline constexpr size_t kMaxMetas = 56 * 1024;   // bytes of a frame's serialised metas
inline constexpr uint32_t kMaxPlanes = 4;        // GST_VIDEO_MAX_PLANES
inline constexpr uint32_t kMaxSlots = 192;       // slots of one sink, all generations together
inline constexpr uint64_t kGranule = 2 * 1024 * 1024;   // allocations are whole granules
inline constexpr uint64_t kMaxAllocation = 1ULL << 36;  // 64 GiB: beyond it a size is a lie
inline constexpr uint64_t kNone = ~0ULL;  // GST_CLOCK_TIME_NONE, GST_BUFFER_OFFSET_NONE

// The page: one file-backed page per conversation, shared by both sides, made and sealed against
// resizing by the sink. Word `slot` of the first array is written when the frame in that slot is
// complete, word `slot` of the second when the consumer is done with it; the value is the frame's
// sequence number. Both arrays start at zero and only ever grow.
struct Page {
  uint64_t ready[kMaxSlots];
  uint64_t released[kMaxSlots];
};
inline constexpr size_t kPageSize = 4096;
static_assert(sizeof(Page) <= kPageSize);

using Id = std::array<uint8_t, 16>;          // instance id or device UUID
using CudaHandle = std::array<uint8_t, 64>;  // CUipcMemHandle or CUipcEventHandle

enum class IpcMode : uint32_t { Vmm = 1, Legacy = 2 };
enum class SyncMode : uint32_t { Semaphore = 1, Event = 2, Host = 4 };  // also bits of a set
enum class EventKind : uint32_t { Gap = 1, Tag = 2, Custom = 3 };
enum class Reason : uint32_t { Version = 1, Device, Driver, Sync, Memory, Busy, Credentials, Bug };

enum class Type : uint16_t {
  Hello = 1,
  Join,
  Welcome,
  Refused,
  Caps,
  Slot,
  CloseSlot,
  SlotClosed,
  ReleaseEvent,
  Frame,
  Segment,
  Event,
  Eos,
  Latency,
};

// The bodies below are the bytes on the wire: little-endian (asserted in message.cpp), naturally
// aligned, padding explicit and zero. A packet is Header, body, then the text or blob if any.
struct Header {
  uint32_t magic = kMagic;
  uint16_t type = 0;
  uint16_t body = 0;  // bytes of the fixed body as the sender knows it
  uint32_t size = 0;  // bytes of the whole packet
  uint32_t zero = 0;
};
static_assert(sizeof(Header) == 16);

// Sink to source, first packet; carries the page's descriptor.
struct Hello {
  uint16_t major = kMajor;
  uint16_t minor = kMinor;
  uint32_t driver_version = 0;  // cuDriverGetVersion
  Id instance{};                // random, per started sink
  Id device{};                  // cuDeviceGetUuid_v2: the MIG instance's own where there is one
  Id gpu{};                     // cuDeviceGetUuid: the whole GPU
  IpcMode ipc_mode = IpcMode::Vmm;
  uint32_t sync_modes = 0;   // set of SyncMode the sink can do
  CudaHandle probe_event{};  // an event to try to open, where Event is offered
};
static_assert(sizeof(Hello) == 128);

// Source to sink: the answer to Hello.
struct Join {
  uint16_t major = kMajor;
  uint16_t minor = kMinor;
  uint32_t driver_version = 0;
  Id instance{};            // random, per source; the sink's own: source and sink share a process
  Id device{};              // the device that will read the frames
  uint32_t sync_modes = 0;  // subset of what Hello offered that was tried and works
  uint32_t zero = 0;
};
static_assert(sizeof(Join) == 48);

// Sink to source: the source is a consumer from here on.
struct Welcome {
  SyncMode sync_mode = SyncMode::Host;
  uint32_t share = 0;     // frames this consumer may hold at once
  uint64_t next_seq = 0;  // the first frame will have at least this number
};
static_assert(sizeof(Welcome) == 16);

// Either way, last packet.
struct Refused {
  Reason reason = Reason::Bug;
  uint32_t text_size = 0;
  std::string_view text;  // words for a person
};

// Sink to source: frames that name `serial` have these caps.
struct Caps {
  uint32_t serial = 0;
  uint32_t text_size = 0;
  std::string_view text;  // gst_caps_to_string()
};

// One plane inside the slot's allocation.
struct Plane {
  uint64_t offset = 0;  // bytes from the allocation's start
  uint64_t size = 0;    // bytes up to the end of the plane's last row
  uint32_t stride = 0;  // bytes from row to row
  uint32_t zero = 0;
};
static_assert(sizeof(Plane) == 24);

// Sink to source: a slot to open; in Vmm mode with the memory's descriptor.
struct Slot {
  uint32_t slot = 0;
  uint32_t n_planes = 0;
  uint64_t generation = 0;  // of the pool the slot belongs to; never reused by this instance
  uint64_t size = 0;        // bytes of the allocation, a whole number of granules
  Plane planes[kMaxPlanes];
  CudaHandle memory{};       // Legacy mode
  CudaHandle ready_event{};  // sync-mode=event
  uint32_t local = 0;        // 1: same process, no handle to open
  uint32_t zero = 0;
};
static_assert(sizeof(Slot) == 256);

// Sink to source: no frame will use the slot any more; close its mapping and confirm.
struct CloseSlot {
  uint32_t slot = 0;
  uint32_t zero = 0;
  uint64_t generation = 0;
};
static_assert(sizeof(CloseSlot) == 16);

// Source to sink.
struct SlotClosed {
  uint32_t slot = 0;
  uint32_t zero = 0;
  uint64_t generation = 0;
};
static_assert(sizeof(SlotClosed) == 16);

// Source to sink, sync-mode=event: the event that will be recorded when the source is done.
struct ReleaseEvent {
  uint32_t slot = 0;
  uint32_t zero = 0;
  uint64_t generation = 0;
  CudaHandle event{};
};
static_assert(sizeof(ReleaseEvent) == 80);

// Sink to source: a picture is in the slot. Complete when the page's ready word reaches `seq`
// (semaphore), the slot's event is done (event), or already (host).
struct Frame {
  uint32_t slot = 0;
  uint32_t caps_serial = 0;
  uint64_t generation = 0;
  uint64_t seq = 0;      // counts the sink's frames from 1, sent or not: a gap is a loss
  uint64_t pts = kNone;  // in the sink's segment, nanoseconds, as are dts and duration
  uint64_t dts = kNone;
  uint64_t duration = kNone;
  uint64_t offset = kNone;
  uint64_t offset_end = kNone;
  uint64_t capture_ns = kNone;  // CLOCK_MONOTONIC time that pts means, where a clock says so
  uint64_t sent_ns = 0;         // CLOCK_MONOTONIC when the frame was handed to the socket
  uint64_t dropped = 0;         // frames this consumer lost so far
  uint32_t flags = 0;           // GstBufferFlags
  uint32_t metas_size = 0;
  std::span<const std::byte> metas;  // gst/metas.h
};
inline constexpr size_t kFrameBody = 96;

// Sink to source: a GstSegment.
struct Segment {
  uint32_t flags = 0;
  uint32_t format = 0;
  double rate = 1.0;
  double applied_rate = 1.0;
  uint64_t base = 0;
  uint64_t offset = 0;
  uint64_t start = 0;
  uint64_t stop = kNone;
  uint64_t time = 0;
  uint64_t position = 0;
  uint64_t duration = kNone;
};
static_assert(sizeof(Segment) == 80);

// Sink to source: a serialised downstream event.
struct Event {
  EventKind kind = EventKind::Gap;
  uint32_t text_size = 0;
  uint64_t timestamp = kNone;  // Gap
  uint64_t duration = kNone;   // Gap
  uint32_t gst_type = 0;       // Custom: GstEventType
  uint32_t zero = 0;
  std::string_view text;  // Tag: the tag list; Custom: the structure
};

struct Eos {
  uint64_t last_seq = 0;  // of the last frame before it
};
static_assert(sizeof(Eos) == 8);

// Sink to source: how late frames leave the sink, for latency queries behind the source.
struct Latency {
  uint64_t latency_ns = 0;
};
static_assert(sizeof(Latency) == 8);

// A type of a newer minor version: to be ignored.
struct Unknown {
  uint16_t type = 0;
};

using Message = std::variant<Unknown, Hello, Join, Welcome, Refused, Caps, Slot, CloseSlot,
                             SlotClosed, ReleaseEvent, Frame, Segment, Event, Eos, Latency>;

using Bytes = std::vector<std::byte>;

// Replaces `out` with the packet. Text and blobs over their limit are a caller's bug (asserted):
// check against the limits above first. Reuses `out`'s memory.
void encode(const Hello& message, Bytes& out);
void encode(const Join& message, Bytes& out);
void encode(const Welcome& message, Bytes& out);
void encode(const Refused& message, Bytes& out);
void encode(const Caps& message, Bytes& out);
void encode(const Slot& message, Bytes& out);
void encode(const CloseSlot& message, Bytes& out);
void encode(const SlotClosed& message, Bytes& out);
void encode(const ReleaseEvent& message, Bytes& out);
void encode(const Frame& message, Bytes& out);
void encode(const Segment& message, Bytes& out);
void encode(const Event& message, Bytes& out);
void encode(const Eos& message, Bytes& out);
void encode(const Latency& message, Bytes& out);

// Every bound is checked here and nowhere else: sizes, padding, enumerators, slot numbers, plane
// extents, text, and the number of descriptors that came along. The result's text and blobs point
// into `packet`. A fault is always Protocol and says which field is wrong.
Result<Message> decode(std::span<const std::byte> packet, size_t n_fds);

const char* name_of(IpcMode mode);
const char* name_of(SyncMode mode);

}  // namespace cudaipc::wire
