#include "bindings/descriptors/file_message.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ronde {
namespace {

/// Room for one descriptor.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

FileDescriptor file_of(msghdr& header) {
  const cmsghdr* const part = CMSG_FIRSTHDR(&header);
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) return {};
  int file = -1;
  std::memcpy(&file, CMSG_DATA(part), sizeof(file));
  return FileDescriptor(file);
}

}  // namespace

ssize_t send_with_file(int socket, const std::string& bytes, int file) noexcept {
  iovec content{const_cast<char*>(bytes.data()), bytes.size()};
  Control control;
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  if (file >= 0) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = control.bytes.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &file, sizeof(int));
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

FileMessage receive_with_file(int socket, std::size_t most) {
  FileMessage message{std::string(most, '\0'), {}};
  iovec content{message.bytes.data(), most};
  Control control;
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = CMSG_LEN(sizeof(int));
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  message.bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (got >= 0) message.file = file_of(header);
  return message;
}

}  // namespace ronde
