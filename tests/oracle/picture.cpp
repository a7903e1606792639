// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Composes the picture of docs/colour.md: converted colour bars, and how far each is from exact.
//
//   picture WIDTH HEIGHT NV12 OURS THEIRS OUT
//
// NV12 (bt601, limited, as GStreamer lays it out), two conversions of it to packed RGB, and the
// output: RGB of three strips side by side (exact and rounded, ours, theirs), below each its
// distance from the exact value in codes, times 32, on mid grey.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/oracle/oracle.h"

namespace {

std::vector<uint8_t> read_file(const char* path, size_t size) {
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.size() != size) {
    fprintf(stderr, "%s: %zu bytes, not %zu\n", path, bytes.size(), size);
    exit(1);
  }
  return bytes;
}

uint8_t clamp(double v) {
  return static_cast<uint8_t>(std::lrint(std::clamp(v, 0.0, 255.0)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    fprintf(stderr, "usage: picture WIDTH HEIGHT NV12 OURS THEIRS OUT\n");
    return 2;
  }
  const int w = atoi(argv[1]), h = atoi(argv[2]);
  const auto n = static_cast<size_t>(w) * static_cast<size_t>(h);
  const auto nv12 = read_file(argv[3], n * 3 / 2);
  oracle::Picture in;
  in.format = "NV12";
  in.width = w, in.height = h;
  in.colour = {oracle::Matrix::Bt601, false, {}};
  in.plane[0] = nv12.data(), in.plane[1] = nv12.data() + n;
  in.stride[0] = in.stride[1] = w;
  const oracle::Components exact =
      oracle::convert(in, {0, 0, w, h}, "RGB", {oracle::Matrix::Rgb, true, {}});
  std::vector<std::vector<uint8_t>> strips(3);
  strips[0].resize(3 * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < 3; ++k)
      strips[0][3 * i + k] = clamp(exact.c[k].value[i]);
  }
  strips[1] = read_file(argv[4], 3 * n);
  strips[2] = read_file(argv[5], 3 * n);
  const char* names[] = {"exact, rounded", "cudacolorconvert", "videoconvert"};
  std::vector<uint8_t> out(2 * 3 * 3 * n);
  const auto row_bytes = static_cast<size_t>(3 * w);
  for (size_t s = 0; s < 3; ++s) {
    double worst = 0, sum = 0;
    for (size_t i = 0; i < 3 * n; ++i) {
      const double error = strips[s][i] - exact.c[i % 3].value[i / 3];
      worst = std::max(worst, std::abs(error));
      sum += error;
      const size_t y = i / row_bytes, x = i % row_bytes + s * row_bytes;
      out[y * 3 * row_bytes + x] = strips[s][i];
      out[(y + static_cast<size_t>(h)) * 3 * row_bytes + x] = clamp(128 + 32 * error);
    }
    printf("%-17s largest error %6.3f codes, mean %+7.4f\n", names[s], worst,
           sum / static_cast<double>(3 * n));
  }
  std::ofstream(argv[6], std::ios::binary)
      .write(reinterpret_cast<const char*>(out.data()), static_cast<std::streamsize>(out.size()));
  return 0;
}
