#include "bindings/cli/launch/messages.h"

#include "bindings/cli/launch/frame.h"

namespace ronde {
namespace {

template <typename T>
Result<T> checked(const FieldReader& reader, T message) {
  if (!reader.ok()) return Status(Code::kInvalidArgument, "a message of the launcher is malformed");
  return message;
}

std::string encode_rank(FrameType type, const RankMessage& message) {
  FieldWriter fields;
  fields.number(message.rank).number(message.pid).number(message.wait_status);
  return encode_frame(type, fields.bytes());
}

int read_int(FieldReader& reader) { return static_cast<int>(reader.number()); }

}  // namespace

std::string encode(const ProbeMessage& message) {
  FieldWriter fields;
  fields.text(message.interface).texts(message.towards);
  return encode_frame(FrameType::kProbe, fields.bytes());
}

Result<ProbeMessage> decode_probe(std::string_view payload) {
  FieldReader reader(payload);
  ProbeMessage message;
  message.interface = reader.text();
  message.towards = reader.texts();
  return checked(reader, std::move(message));
}

std::string encode(const ProbedMessage& message) {
  FieldWriter fields;
  fields.text(message.error).text(message.address);
  fields.number(message.rendezvous_port).number(message.master_port);
  return encode_frame(FrameType::kProbed, fields.bytes());
}

Result<ProbedMessage> decode_probed(std::string_view payload) {
  FieldReader reader(payload);
  ProbedMessage message;
  message.error = reader.text();
  message.address = reader.text();
  message.rendezvous_port = read_int(reader);
  message.master_port = read_int(reader);
  return checked(reader, std::move(message));
}

std::string encode(const StartMessage& message) {
  FieldWriter fields;
  fields.text(message.directory).texts(message.command).text(message.secret);
  fields.texts(message.environment).number(static_cast<std::int64_t>(message.ranks.size()));
  for (const RankStart& rank : message.ranks) fields.number(rank.rank).texts(rank.environment);
  return encode_frame(FrameType::kStart, fields.bytes());
}

Result<StartMessage> decode_start(std::string_view payload) {
  FieldReader reader(payload);
  StartMessage message;
  message.directory = reader.text();
  message.command = reader.texts();
  message.secret = reader.text();
  message.environment = reader.texts();
  const std::int64_t count = reader.number();
  for (std::int64_t i = 0; i < count && reader.ok(); ++i) {
    const int rank = read_int(reader);
    message.ranks.push_back({rank, reader.texts()});
  }
  return checked(reader, std::move(message));
}

std::string encode(const OutputMessage& message) {
  FieldWriter fields;
  fields.number(message.rank).number(message.stream).text(message.bytes);
  return encode_frame(FrameType::kOutput, fields.bytes());
}

Result<OutputMessage> decode_output(std::string_view payload) {
  FieldReader reader(payload);
  OutputMessage message;
  message.rank = read_int(reader);
  message.stream = read_int(reader);
  message.bytes = reader.text();
  return checked(reader, std::move(message));
}

std::string encode_started(const RankMessage& message) {
  return encode_rank(FrameType::kStarted, message);
}

std::string encode_exited(const RankMessage& message) {
  return encode_rank(FrameType::kExited, message);
}

Result<RankMessage> decode_rank(std::string_view payload) {
  FieldReader reader(payload);
  RankMessage message;
  message.rank = read_int(reader);
  message.pid = read_int(reader);
  message.wait_status = read_int(reader);
  return checked(reader, message);
}

std::string encode(const CannotStartMessage& message) {
  FieldWriter fields;
  fields.number(message.rank).number(message.exit_status).text(message.text);
  return encode_frame(FrameType::kCannotStart, fields.bytes());
}

Result<CannotStartMessage> decode_cannot_start(std::string_view payload) {
  FieldReader reader(payload);
  CannotStartMessage message;
  message.rank = read_int(reader);
  message.exit_status = read_int(reader);
  message.text = reader.text();
  return checked(reader, std::move(message));
}

std::string encode(const Fate& fate) {
  FieldWriter fields;
  fields.number(fate.pid).text(fate.host).text(fate.text);
  return encode_frame(FrameType::kFate, fields.bytes());
}

Result<Fate> decode_fate(std::string_view payload) {
  FieldReader reader(payload);
  Fate fate;
  fate.pid = read_int(reader);
  fate.host = reader.text();
  fate.text = reader.text();
  return checked(reader, std::move(fate));
}

std::string encode_signal(int signal) {
  return encode_frame(FrameType::kSignal, FieldWriter().number(signal).bytes());
}

Result<int> decode_signal(std::string_view payload) {
  FieldReader reader(payload);
  return checked(reader, read_int(reader));
}

}  // namespace ronde
