"""Protobuf files for tests, and their descriptors, with every kind of field."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from exporter.formats.protobuf.compile import descriptor_set

EVERY = """
syntax = "proto3";
package every;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/any.proto";
import "google/protobuf/empty.proto";

message Every {
  int32 i32 = 1;
  int64 i64 = 2;
  uint32 u32 = 3;
  uint64 u64 = 4;
  sint32 s32 = 5;
  sint64 s64 = 6;
  bool flag = 7;
  Color color = 8;
  fixed32 f32 = 9;
  sfixed32 sf32 = 10;
  float single = 11;
  fixed64 f64 = 12;
  sfixed64 sf64 = 13;
  double twice = 14;
  string text = 15;
  bytes raw = 16;
  optional int32 maybe = 17;
  optional string maybe_text = 18;
  optional Color maybe_color = 19;
  optional uint64 maybe_u64 = 20;
  Inner inner = 21;
  repeated int32 packed = 22;
  repeated sint64 unpacked = 23 [packed = false];
  repeated double doubles = 24;
  repeated Color colors = 25;
  repeated string texts = 26;
  repeated bytes raws = 27;
  repeated Inner inners = 28;
  map<string, int64> counts = 29;
  map<string, Inner> named = 30;
  map<int32, string> by_number = 31;
  map<bool, double> by_flag = 32;
  oneof choice {
    string a = 33;
    int32 b = 34;
    Inner c = 35;
  }
  google.protobuf.Timestamp at = 36;
  repeated google.protobuf.Timestamp times = 37;
  google.protobuf.Duration took = 38;
  google.protobuf.Int64Value wrapped = 39;
  google.protobuf.StringValue wrapped_text = 40;
  repeated google.protobuf.BoolValue wrapped_flags = 41;
  google.protobuf.Any any = 42;
  google.protobuf.Empty empty = 43;
  map<string, google.protobuf.Timestamp> moments = 44;
  repeated fixed32 fixeds = 45;
  repeated uint64 u64s = 46;
  repeated bool flags = 47;
  map<uint64, Color> by_u64 = 48;
  map<string, google.protobuf.Int32Value> boxes = 49;
  int64 far = 536870911;
}

enum Color {
  NONE = 0;
  RED = 1;
  BELOW = -5;
  FAR = 1000000;
}

message Inner {
  int32 x = 1;
  optional string y = 2;
  repeated int32 z = 3;
  Leaf leaf = 4;
  repeated Leaf leaves = 5;
}

message Leaf {
  sint32 v = 1;
  optional bool w = 2;
}
"""

OLD = """
syntax = "proto2";
package old;

message Old {
  required int64 id = 1;
  optional string text = 2 [default = "x"];
  optional Size size = 3 [default = LARGE];
  repeated int32 loose = 4;
  repeated int32 packed = 5 [packed = true];
  repeated Part parts = 6;
  optional Part part = 7;
  map<string, Shade> shades = 8;
  oneof one {
    Part left = 9;
    sfixed64 right = 10;
  }
  map<string, Part> named = 11;
  extensions 100 to 200;
}

message Part {
  required string name = 1;
  optional double weight = 2;
}

enum Shade {
  DARK = 0;
  LIGHT = 7;
}

enum Size {
  SMALL = 1;
  LARGE = 2;
}
"""


@cache
def raw_set(text: str, name: str = "tests.proto") -> bytes:
    """The FileDescriptorSet of one file."""
    return descriptor_set({name: text})


def text_of(text: str) -> str:
    """As it stands in a SchemaText."""
    return base64.b64encode(raw_set(text)).decode()


@cache
def classes(text: str) -> dict[str, Any]:
    """Full name -> class of messages, by upb."""
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(raw_set(text)).file
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClassesForFiles([file.name for file in files], pool)
