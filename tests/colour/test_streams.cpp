// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Two streams that convert by different matrices at the same time, and one converter of two
// threads.
#include <thread>
#include <vector>

#include "tests/colour/cases.h"

namespace cudaipc::test {
namespace {

using kernels::Colour;
using kernels::Matrix;
using kernels::Picture;
using kernels::Range;

// Frames of one stream are told apart by their sources.
constexpr int kSlots = 4;

// A stream of its own, a converter, and for each of its frames the picture that must come out.
struct Party {
  Party(const Case& what, uint32_t seed)
      : c(what),
        made(std::make_shared<kernels::Converter>(converter(what))),
        in(*what.from.format, what.from.width, what.from.height, kAlignedLook),
        out(*what.to.format, what.to.width, what.to.height, kAlignedLook),
        from(lane.source.at_least(in.size * kSlots)),
        to(lane.target.at_least(out.size * kSlots)) {
    for_each(1, [&](Lane& other, size_t) {
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        const Bytes source = noise(c.from, seed + slot);
        check(other, c, {{kAlignedLook, kAlignedLook}}, source);
        want.push_back(convert(other, *made, c, {kAlignedLook, kAlignedLook}, source));
        Bytes bytes(in.size);
        Layout::tight(*c.from.format, c.from.width, c.from.height).copy_to(in, source, bytes);
        lane.upload(from + slot * in.size, bytes);
        lane.wait();
      }
    });
  }

  void clear() {
    const Bytes poison(out.size * kSlots, 0xa5);
    lane.upload(to, poison);
    lane.wait();
  }
  void enqueue(size_t slot) {
    if (auto done = made->convert(in.frame(from + slot * in.size), out.frame(to + slot * out.size),
                                  lane.stream.get());
        !done)
      fail(describe(c) + ": " + done.error().message);
  }
  void expect(int frame) {
    Bytes bytes(out.size * kSlots), one(out.size);
    lane.download(bytes, to);
    lane.wait();
    const Layout tight = Layout::tight(*c.to.format, c.to.width, c.to.height);
    for (size_t slot = 0; slot < kSlots; ++slot) {
      const auto begin = bytes.begin() + static_cast<ptrdiff_t>(slot * out.size);
      one.assign(begin, begin + static_cast<ptrdiff_t>(out.size));
      Bytes got(tight.size);
      out.copy_to(tight, one, got);
      if (got != want[slot])
        fail(describe(c) + ": frame " + std::to_string(frame + static_cast<int>(slot)) +
             " differs from the same conversion alone");
    }
  }

  Case c;
  Lane lane;
  std::shared_ptr<kernels::Converter> made;
  Layout in, out;
  CUdeviceptr from, to;
  std::vector<Bytes> want;
};

int frames() {
  return exhaustive() ? 10000 : 200;
}

Case case_of(const char* from, const char* to, Matrix matrix, Range range) {
  Case c{picture(from, 64, 36, {matrix, range}), picture(to, 64, 36, {matrix, range})};
  return c;
}

TEST(Streams, TwoMatricesFromOneThread) {
  Party a(case_of("NV12", "RGBA", Matrix::Bt601, Range::Full), 1);
  Party b(case_of("NV12", "RGBA", Matrix::Bt2020, Range::Limited), 1);
  for (int frame = 0; frame < frames(); frame += kSlots) {
    a.clear(), b.clear();
    for (size_t slot = 0; slot < kSlots; ++slot)
      a.enqueue(slot), b.enqueue(slot);
    a.expect(frame), b.expect(frame);
  }
}

void run_in_two_threads(Party& a, Party& b) {
  const auto run = [](Party& party) {
    for (int frame = 0; frame < frames(); frame += kSlots) {
      party.clear();
      for (size_t slot = 0; slot < kSlots; ++slot)
        party.enqueue(slot);
      party.expect(frame);
    }
  };
  std::thread other([&] { run(b); });
  run(a);
  other.join();
}

TEST(Streams, TwoMatricesFromTwoThreads) {
  Party a(case_of("RGBA", "NV12", Matrix::Bt709, Range::Limited), 1);
  Party b(case_of("I420", "RGBP", Matrix::Fcc, Range::Full), 1);
  run_in_two_threads(a, b);
}

TEST(Streams, OneConverterOfTwoThreads) {
  Party a(case_of("P010_10LE", "RGBA", Matrix::Bt2020, Range::Limited), 1);
  Party b(a.c, 50);
  b.made = a.made;
  run_in_two_threads(a, b);
}

}  // namespace
}  // namespace cudaipc::test
