// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Video caps and what the conversion kernels make of them: which formats, which colour, and the
// choice of the output where downstream leaves it open.
#pragma once

#include <gst/video/video.h>

#include <string>

#include "kernels/converter.h"

namespace cudaipc {

// What caps say of the frames, with what they leave open filled in (docs/colour.md):
// colorimetry as GStreamer has it, bt709 above 576 lines, bt601 otherwise, full-range sRGB for RGB;
// chroma beside the even columns above 576 lines, else between the luma samples.
struct VideoPicture {
  GstVideoInfo info;
  kernels::Picture picture;
  GstVideoColorimetry colorimetry;
  bool stated = false;      // the caps have a colorimetry
  bool cuda = false;        // in GPU memory
  bool interlaced = false;  // two fields a frame, or now and then
  std::string assumed;      // what was stated but not understood, and what was taken instead
};

// The error is for a person: which field, which value.
Result<VideoPicture> picture_from_caps(const GstCaps* caps);

// Caps of the formats that the kernels read and this GStreamer knows, GPU memory first. Those that
// cannot be written can still pass through.
GstCaps* convertible_caps();

// What `caps` can become (or can come from): any format, colour and siting, in either memory.
GstCaps* transformed_caps(const GstCaps* caps, bool to_source_pad);

// Chooses from `options` what loses least of `input`: first the same format in the same memory,
// then by depth, alpha, subsampling, colour family. Takes `options`, returns fixed caps.
GstCaps* choose_output(const GstCaps* input, GstCaps* options);

// Whether the frames are the same bytes, but perhaps in other memory.
bool same_picture(const VideoPicture& a, const VideoPicture& b);

// Empty if a conversion by matrix and range alone keeps what the colours mean: primaries and
// transfer are the same, unknown, or were never stated; otherwise names the fields and values.
std::string meaning_changes(const VideoPicture& from, const VideoPicture& to);

}  // namespace cudaipc
