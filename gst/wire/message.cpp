// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Messages to bytes and back; the only place that checks what a peer sent.
#include "gst/wire/message.h"

#include <bit>
#include <cassert>
#include <cstring>

namespace cudaipc::wire {
namespace {

// CUDA IPC exists on x86-64 and 64-bit Arm, both little-endian: the structs are the wire format.
static_assert(std::endian::native == std::endian::little);

// The bytes of a message that has a text or blob behind its fixed body.
struct RefusedBody {
  Reason reason;
  uint32_t text_size;
};
struct CapsBody {
  uint32_t serial;
  uint32_t text_size;
};
struct FrameBody {
  uint32_t slot;
  uint32_t caps_serial;
  uint64_t generation, seq, pts, dts, duration, offset, offset_end, capture_ns, sent_ns, dropped;
  uint32_t flags;
  uint32_t metas_size;
};
struct EventBody {
  EventKind kind;
  uint32_t text_size;
  uint64_t timestamp, duration;
  uint32_t gst_type;
  uint32_t zero;
};
static_assert(sizeof(RefusedBody) == 8);
static_assert(sizeof(CapsBody) == 8);
static_assert(sizeof(FrameBody) == kFrameBody);
static_assert(sizeof(EventBody) == 32);
static_assert(sizeof(Header) + sizeof(FrameBody) + kMaxMetas <= kMaxPacket);
static_assert(sizeof(Header) + sizeof(EventBody) + kMaxEvent <= kMaxPacket);
static_assert(sizeof(Header) + sizeof(CapsBody) + kMaxCaps <= kMaxPacket);

template <typename Body>
void write(Type type, const Body& body, std::span<const std::byte> tail, Bytes& out) {
  Header header;
  header.type = static_cast<uint16_t>(type);
  header.body = sizeof(Body);
  header.size = static_cast<uint32_t>(sizeof(Header) + sizeof(Body) + tail.size());
  assert(header.size <= kMaxPacket);
  out.resize(header.size);
  std::memcpy(out.data(), &header, sizeof(header));
  std::memcpy(out.data() + sizeof(header), &body, sizeof(body));
  if (!tail.empty())
    std::memcpy(out.data() + sizeof(header) + sizeof(body), tail.data(), tail.size());
}

template <typename Body>
void write(Type type, const Body& body, std::string_view tail, Bytes& out) {
  write(type, body, std::as_bytes(std::span(tail)), out);
}

template <typename Body>
void write(Type type, const Body& body, Bytes& out) {
  write(type, body, std::span<const std::byte>(), out);
}

Error bad(const char* what) {
  return {Fault::Protocol, 0, std::string("malformed packet: ") + what};
}

// A packet whose header was checked: what is left to read.
struct Input {
  Header header;
  std::span<const std::byte> body;  // header.body bytes
  std::span<const std::byte> tail;  // the rest
};

template <typename Body>
bool read(const Input& in, Body& body) {
  if (in.body.size() < sizeof(Body))
    return false;
  std::memcpy(&body, in.body.data(), sizeof(Body));
  return true;
}

// A newer minor version may have appended to the body, never a tail to a message without one.
template <typename Body>
Result<Message> fixed(const Input& in, const char* (*check)(const Body&)) {
  Body body;
  if (!read(in, body))
    return bad("body too short");
  if (!in.tail.empty())
    return bad("bytes behind the body");
  if (const char* what = check(body))
    return bad(what);
  return Message(body);
}

bool known(SyncMode mode) {
  return mode == SyncMode::Semaphore || mode == SyncMode::Event || mode == SyncMode::Host;
}

const char* check(const Hello& m) {
  // Of another major version only the numbers at the start are certain: they are what the caller
  // needs to refuse it by name.
  if (m.major != kMajor)
    return nullptr;
  if (m.ipc_mode != IpcMode::Vmm && m.ipc_mode != IpcMode::Legacy)
    return "ipc mode";
  if (m.sync_modes == 0)
    return "no sync mode";
  return nullptr;
}

const char* check(const Join& m) {
  if (m.major == kMajor && m.zero != 0)
    return "padding";
  return nullptr;
}

const char* check(const Welcome& m) {
  if (!known(m.sync_mode))
    return "sync mode";
  if (m.share == 0 || m.share > kMaxSlots)
    return "share";
  return nullptr;
}

const char* check(const Slot& m) {
  if (m.slot >= kMaxSlots)
    return "slot number";
  if (m.n_planes == 0 || m.n_planes > kMaxPlanes)
    return "number of planes";
  if (m.size == 0 || m.size % kGranule != 0 || m.size > kMaxAllocation)
    return "allocation size";
  if (m.local > 1 || m.zero != 0)
    return "padding";
  for (uint32_t i = 0; i < kMaxPlanes; ++i) {
    const Plane& p = m.planes[i];
    if (p.zero != 0)
      return "plane padding";
    if (i >= m.n_planes) {
      if (p.offset != 0 || p.size != 0 || p.stride != 0)
        return "plane that is not there";
    } else if (p.stride == 0 || p.size == 0 || p.size > m.size || p.offset > m.size - p.size) {
      return "plane outside its allocation";
    }
  }
  return nullptr;
}

template <typename SlotMessage>
const char* check_slot(const SlotMessage& m) {
  if (m.slot >= kMaxSlots)
    return "slot number";
  if (m.zero != 0)
    return "padding";
  return nullptr;
}
const char* check(const CloseSlot& m) {
  return check_slot(m);
}
const char* check(const SlotClosed& m) {
  return check_slot(m);
}
const char* check(const ReleaseEvent& m) {
  return check_slot(m);
}
const char* check(const Segment&) {
  return nullptr;
}
const char* check(const Eos&) {
  return nullptr;
}
const char* check(const Latency&) {
  return nullptr;
}

template <typename Body>
Result<Message> fixed(const Input& in) {
  return fixed<Body>(in, [](const Body& body) { return check(body); });
}

// The tail as text of exactly `size` bytes, without a NUL, so that it can become a C string.
const char* text_of(const Input& in, uint32_t size, size_t limit, std::string_view& text) {
  if (size != in.tail.size())
    return "text size";
  if (size > limit)
    return "text over its limit";
  text = {reinterpret_cast<const char*>(in.tail.data()), in.tail.size()};
  return text.find('\0') == text.npos ? nullptr : "NUL in text";
}

Result<Message> refused(const Input& in) {
  RefusedBody body;
  Refused m;
  if (!read(in, body))
    return bad("body too short");
  if (const char* what = text_of(in, body.text_size, kMaxText, m.text))
    return bad(what);
  m.reason = body.reason;
  m.text_size = body.text_size;
  return Message(m);
}

Result<Message> caps(const Input& in) {
  CapsBody body;
  Caps m;
  if (!read(in, body))
    return bad("body too short");
  if (const char* what = text_of(in, body.text_size, kMaxCaps, m.text))
    return bad(what);
  m.serial = body.serial;
  m.text_size = body.text_size;
  return Message(m);
}

Result<Message> event(const Input& in) {
  EventBody body;
  Event m;
  if (!read(in, body))
    return bad("body too short");
  if (const char* what = text_of(in, body.text_size, kMaxEvent, m.text))
    return bad(what);
  if (body.kind < EventKind::Gap || body.kind > EventKind::Custom)
    return bad("event kind");
  if (body.zero != 0)
    return bad("padding");
  m.kind = body.kind;
  m.text_size = body.text_size;
  m.timestamp = body.timestamp;
  m.duration = body.duration;
  m.gst_type = body.gst_type;
  return Message(m);
}

Result<Message> frame(const Input& in) {
  FrameBody b;
  if (!read(in, b))
    return bad("body too short");
  if (b.slot >= kMaxSlots)
    return bad("slot number");
  if (b.seq == 0 || b.seq == kNone)
    return bad("sequence number");
  if (b.metas_size != in.tail.size() || b.metas_size > kMaxMetas)
    return bad("size of metas");
  Frame m;
  m.slot = b.slot;
  m.caps_serial = b.caps_serial;
  m.generation = b.generation;
  m.seq = b.seq;
  m.pts = b.pts;
  m.dts = b.dts;
  m.duration = b.duration;
  m.offset = b.offset;
  m.offset_end = b.offset_end;
  m.capture_ns = b.capture_ns;
  m.sent_ns = b.sent_ns;
  m.dropped = b.dropped;
  m.flags = b.flags;
  m.metas_size = b.metas_size;
  m.metas = in.tail;
  return Message(m);
}

size_t expected_fds(const Message& message) {
  if (std::holds_alternative<Hello>(message))
    return std::get<Hello>(message).major == kMajor ? 1 : kMaxFds + 1;
  return 0;
}

}  // namespace

void encode(const Hello& m, Bytes& out) {
  write(Type::Hello, m, out);
}
void encode(const Join& m, Bytes& out) {
  write(Type::Join, m, out);
}
void encode(const Welcome& m, Bytes& out) {
  write(Type::Welcome, m, out);
}
void encode(const Slot& m, Bytes& out) {
  write(Type::Slot, m, out);
}
void encode(const CloseSlot& m, Bytes& out) {
  write(Type::CloseSlot, m, out);
}
void encode(const SlotClosed& m, Bytes& out) {
  write(Type::SlotClosed, m, out);
}
void encode(const ReleaseEvent& m, Bytes& out) {
  write(Type::ReleaseEvent, m, out);
}
void encode(const Segment& m, Bytes& out) {
  write(Type::Segment, m, out);
}
void encode(const Eos& m, Bytes& out) {
  write(Type::Eos, m, out);
}
void encode(const Latency& m, Bytes& out) {
  write(Type::Latency, m, out);
}

void encode(const Refused& m, Bytes& out) {
  const std::string_view text = m.text.substr(0, kMaxText);
  write(Type::Refused, RefusedBody{m.reason, static_cast<uint32_t>(text.size())}, text, out);
}

void encode(const Caps& m, Bytes& out) {
  assert(m.text.size() <= kMaxCaps);
  write(Type::Caps, CapsBody{m.serial, static_cast<uint32_t>(m.text.size())}, m.text, out);
}

void encode(const Event& m, Bytes& out) {
  assert(m.text.size() <= kMaxEvent);
  write(Type::Event,
        EventBody{m.kind, static_cast<uint32_t>(m.text.size()), m.timestamp, m.duration, m.gst_type,
                  0},
        m.text, out);
}

void encode(const Frame& m, Bytes& out) {
  assert(m.metas.size() <= kMaxMetas);
  const FrameBody body{m.slot,       m.caps_serial,
                       m.generation, m.seq,
                       m.pts,        m.dts,
                       m.duration,   m.offset,
                       m.offset_end, m.capture_ns,
                       m.sent_ns,    m.dropped,
                       m.flags,      static_cast<uint32_t>(m.metas.size())};
  write(Type::Frame, body, m.metas, out);
}

Result<Message> decode(std::span<const std::byte> packet, size_t n_fds) {
  Input in;
  if (packet.size() < sizeof(Header))
    return bad("shorter than a header");
  std::memcpy(&in.header, packet.data(), sizeof(Header));
  if (in.header.magic != kMagic)
    return bad("not this protocol");
  if (in.header.size != packet.size() || packet.size() > kMaxPacket)
    return bad("packet size");
  if (in.header.zero != 0)
    return bad("header padding");
  if (n_fds > kMaxFds)
    return bad("too many descriptors");
  const auto rest = packet.subspan(sizeof(Header));
  if (in.header.body > rest.size())
    return bad("body longer than the packet");
  in.body = rest.first(in.header.body);
  in.tail = rest.subspan(in.header.body);

  Result<Message> result = bad("type 0");
  switch (static_cast<Type>(in.header.type)) {
    case Type::Hello:
      result = fixed<Hello>(in);
      break;
    case Type::Join:
      result = fixed<Join>(in);
      break;
    case Type::Welcome:
      result = fixed<Welcome>(in);
      break;
    case Type::Refused:
      result = refused(in);
      break;
    case Type::Caps:
      result = caps(in);
      break;
    case Type::Slot:
      result = fixed<Slot>(in);
      // One descriptor or none: which one is right depends on the mode that Hello announced, so
      // the importer checks it.
      return result;
    case Type::CloseSlot:
      result = fixed<CloseSlot>(in);
      break;
    case Type::SlotClosed:
      result = fixed<SlotClosed>(in);
      break;
    case Type::ReleaseEvent:
      result = fixed<ReleaseEvent>(in);
      break;
    case Type::Frame:
      result = frame(in);
      break;
    case Type::Segment:
      result = fixed<Segment>(in);
      break;
    case Type::Event:
      result = event(in);
      break;
    case Type::Eos:
      result = fixed<Eos>(in);
      break;
    case Type::Latency:
      result = fixed<Latency>(in);
      break;
    default:
      if (in.header.type != 0)
        return Message(Unknown{in.header.type});
  }
  if (!result)
    return result;
  const size_t expected = expected_fds(*result);
  if (expected <= kMaxFds && n_fds != expected)
    return bad("number of descriptors");
  return result;
}

const char* name_of(IpcMode mode) {
  return mode == IpcMode::Vmm ? "vmm" : "legacy";
}

const char* name_of(SyncMode mode) {
  switch (mode) {
    case SyncMode::Semaphore:
      return "semaphore";
    case SyncMode::Event:
      return "event";
    case SyncMode::Host:
      return "host";
  }
  return "none";
}

}  // namespace cudaipc::wire
