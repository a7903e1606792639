// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Addresses, channels and listeners of gst/transport, against the kernel's own sockets.
#include "gst/transport/channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tests/unit/support.h"

namespace cudaipc::test {
namespace {

constexpr int kWaitMs = 10000;
constexpr uid_t kNobody = 65534;

bool wait_for(int fd, short events = POLLIN) {
  pollfd p{fd, events, 0};
  int n = 0;
  do
    n = ::poll(&p, 1, kWaitMs);
  while (n < 0 && errno == EINTR);
  return n > 0;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(const Packet& packet) {
  return {reinterpret_cast<const char*>(packet.data.get()), packet.size};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool exists(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0;
}

ino_t inode(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0 ? st.st_ino : 0;
}

ino_t inode(int fd) {
  struct stat st {};
  return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

mode_t mode_of(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0 ? st.st_mode & 07777 : 0;
}

Address at(const std::string& text) {
  auto address = Address::parse(text);
  EXPECT_TRUE(address) << text;
  return *address;
}

// The number under which this process has `path` open, or -1.
int descriptor_of(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // of the folder's own descriptor, at worst
    if (std::filesystem::read_symlink(entry.path(), gone) == path)
      return std::stoi(entry.path().filename().string());
  }
  return -1;
}

std::array<UniqueFd, 2> make_pipe() {
  int fds[2];
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// A socket of another program: bound, and listening if `backlog` is not negative, without our lock.
UniqueFd foreign_socket(const std::string& path, int type, int backlog) {
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0) << path;
  if (backlog >= 0) {
    EXPECT_EQ(listen(fd.get(), backlog), 0);
  }
  return fd;
}

void leave_stale_socket(const std::string& path) {
  foreign_socket(path, SOCK_SEQPACKET, 1).reset();
  ASSERT_TRUE(exists(path));
}

// sendmsg(2) as a peer that keeps to no rule of ours may call it.
ssize_t send_raw(int socket, const std::string& data, const std::vector<int>& fds) {
  iovec vector{const_cast<char*>(data.data()), data.size()};
  std::vector<char> control(CMSG_SPACE(sizeof(int) * fds.size()));
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

// A forked process; killed and reaped at the latest when this goes.
class Child {
 public:
  // `body` gets the end of a pipe to write its report to; the child is over when it returns.
  explicit Child(const std::function<void(int)>& body) {
    auto [reader, writer] = make_pipe();
    pid_ = fork();
    EXPECT_GE(pid_, 0);
    if (pid_ == 0) {
      reader.reset();
      body(writer.get());
      _exit(0);
    }
    report_ = std::move(reader);
  }
  ~Child() { kill(); }
  Child(Child&&) = delete;

  pid_t pid() const { return pid_; }
  // One write() of the child; empty when it ended without.
  std::string next() const {
    char text[1024];
    if (!wait_for(report_.get())) {
      ADD_FAILURE() << "no report from the child";
      return {};
    }
    const ssize_t n = read(report_.get(), text, sizeof(text));
    return {text, n > 0 ? static_cast<size_t>(n) : 0};
  }
  void kill() {
    if (pid_ <= 0)
      return;
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(waitpid(pid_, nullptr, 0), pid_);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd report_;
};

void report(int fd, const std::string& text) {
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    _exit(1);
}

std::string words(const Error& error) {
  return std::to_string(error.code) + " " + error.message;
}

// Sets an environment variable, or unsets it (nullptr), until the end of the scope.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) {
    if (const char* old = getenv(name))
      old_ = old;
    set(value);
  }
  ~ScopedEnv() { set(old_ ? old_->c_str() : nullptr); }

 private:
  void set(const char* value) const {
    if (value)
      setenv(name_, value, 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> old_;
};

// The members are destroyed in reverse: the folder first, the count of descriptors after it.
class Transport : public ::testing::Test {
 protected:
  Watchdog watchdog;
  FdLeakCheck leaks;
  TempDir dir;
};
using AddressTest = Transport;
using ChannelTest = Transport;
using ListenerTest = Transport;

struct Ends {
  Ends() {
    auto made = Channel::pair();
    EXPECT_TRUE(made);
    a = std::move((*made)[0]);
    b = std::move((*made)[1]);
  }
  Channel a, b;
  Packet packet;
};

// A client connected to `listener`, with a packet exchanged both ways.
void expect_serves(Listener& listener) {
  auto client = Channel::connect(listener.address());
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_TRUE(wait_for(listener.fd()));
  auto accepted = listener.accept();
  ASSERT_TRUE(accepted) << accepted.error().message;
  ASSERT_TRUE(*accepted);
  Channel& server = **accepted;
  Packet packet;
  EXPECT_EQ(server.receive(packet), Received::Nothing);
  EXPECT_EQ(client->receive(packet), Received::Nothing);
  ASSERT_EQ(client->send(bytes_of("ping")), Sent::Yes);
  ASSERT_TRUE(wait_for(server.fd()));
  ASSERT_EQ(server.receive(packet), Received::Yes);
  EXPECT_EQ(text_of(packet), "ping");
  ASSERT_EQ(server.send(bytes_of("pong")), Sent::Yes);
  ASSERT_TRUE(wait_for(client->fd()));
  ASSERT_EQ(client->receive(packet), Received::Yes);
  EXPECT_EQ(text_of(packet), "pong");
}

// ---- addresses

TEST_F(AddressTest, EmptyIsRefused) {
  for (const char* text : {"", "@"}) {
    auto address = Address::parse(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().fault, Fault::System);
    EXPECT_EQ(address.error().code, EINVAL);
  }
}

TEST_F(AddressTest, LongestIs107Bytes) {
  for (const char* first : {"/", "@"}) {
    const std::string longest = first + std::string(106, 'x');
    auto fits = Address::parse(longest);
    ASSERT_TRUE(fits);
    EXPECT_EQ(fits->text(), longest);
    auto over = Address::parse(longest + "x");
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, ENAMETOOLONG);
    EXPECT_TRUE(contains(over.error().message, longest + "x")) << over.error().message;
    EXPECT_TRUE(contains(over.error().message, "108")) << over.error().message;
    EXPECT_TRUE(contains(over.error().message, "107")) << over.error().message;
  }
}

TEST_F(AddressTest, LongestServes) {
  std::string path = dir / "";
  path.append(107 - path.size(), 'x');
  std::string name = "@cudaipc-test-" + std::to_string(getpid()) + "-";
  name.append(107 - name.size(), 'x');
  for (const std::string& text : {path, name}) {
    auto listener = Listener::bind(at(text));
    ASSERT_TRUE(listener) << listener.error().message;
    expect_serves(*listener);
  }
}

TEST_F(AddressTest, TrailingSlashIsAFolder) {
  auto address = Address::parse("/run/somewhere/");
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().code, EISDIR);
  EXPECT_TRUE(contains(address.error().message, "/run/somewhere/")) << address.error().message;
}

TEST_F(AddressTest, AbstractIsTold) {
  EXPECT_TRUE(at("@name").abstract());
  EXPECT_EQ(at("@name").text(), "@name");
  EXPECT_TRUE(at("@name/").abstract());
  EXPECT_FALSE(at("/name").abstract());
  EXPECT_FALSE(at("name@").abstract());
}

TEST_F(AddressTest, DefaultIsInTheRuntimeFolder) {
  ScopedEnv runtime("XDG_RUNTIME_DIR", dir.path().c_str());
  EXPECT_EQ(Address::default_text(), dir / "cudaipc/video.sock");
  EXPECT_FALSE(exists(dir / "cudaipc")) << "the text alone made a folder";
  for (int round = 0; round < 2; ++round) {  // folder made, folder found
    auto address = Address::default_for_user();
    ASSERT_TRUE(address) << address.error().message;
    EXPECT_EQ(address->text(), dir / "cudaipc/video.sock");
    EXPECT_EQ(mode_of(dir / "cudaipc"), 0700u);
  }
  auto listener = Listener::bind(*Address::default_for_user());
  ASSERT_TRUE(listener) << listener.error().message;
  expect_serves(*listener);
}

// In a child: GLib reads TMPDIR once in a process.
TEST_F(AddressTest, DefaultWithoutRuntimeFolderIsInTheTemporaryFolder) {
  const std::string folder = dir / ("cudaipc-" + std::to_string(geteuid()));
  for (const char* runtime : {static_cast<const char*>(nullptr), "relative/folder"}) {
    Child child([&](int out) {
      ScopedEnv xdg("XDG_RUNTIME_DIR", runtime);
      ScopedEnv tmp("TMPDIR", dir.path().c_str());
      auto address = Address::default_for_user();
      report(out, address ? address->text() : address.error().message);
    });
    EXPECT_EQ(child.next(), folder + "/video.sock");
    EXPECT_EQ(mode_of(folder), 0700u);
  }
}

TEST_F(AddressTest, DefaultIsRefusedWhereOthersMayWrite) {
  ScopedEnv runtime("XDG_RUNTIME_DIR", dir.path().c_str());
  const std::string folder = dir / "cudaipc";
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  for (mode_t mode : {0720u, 0702u, 0777u}) {
    ASSERT_EQ(chmod(folder.c_str(), mode), 0);
    auto address = Address::default_for_user();
    ASSERT_FALSE(address) << std::oct << mode;
    EXPECT_EQ(address.error().code, EPERM);
    EXPECT_TRUE(contains(address.error().message, folder)) << address.error().message;
    EXPECT_EQ(mode_of(folder), mode) << "the mode was changed";
  }
  ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
  EXPECT_TRUE(Address::default_for_user());
}

TEST_F(AddressTest, DefaultIsRefusedBehindALinkOrAFile) {
  ScopedEnv runtime("XDG_RUNTIME_DIR", dir.path().c_str());
  const std::string folder = dir / "cudaipc";
  ASSERT_EQ(mkdir((dir / "elsewhere").c_str(), 0700), 0);
  ASSERT_EQ(symlink("elsewhere", folder.c_str()), 0);
  auto link = Address::default_for_user();
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, EPERM);
  ASSERT_EQ(unlink(folder.c_str()), 0);
  std::ofstream(folder) << "x";
  auto file = Address::default_for_user();
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, EPERM);
}

TEST_F(AddressTest, DefaultIsRefusedInAnotherUsersFolder) {
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root to give a folder away";
  ScopedEnv runtime("XDG_RUNTIME_DIR", dir.path().c_str());
  ASSERT_EQ(mkdir((dir / "cudaipc").c_str(), 0700), 0);
  ASSERT_EQ(chown((dir / "cudaipc").c_str(), kNobody, kNobody), 0);
  auto address = Address::default_for_user();
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().code, EPERM);
}

TEST_F(AddressTest, DefaultNeedsTheRuntimeFolder) {
  ScopedEnv runtime("XDG_RUNTIME_DIR", (dir / "missing").c_str());
  auto address = Address::default_for_user();
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().code, ENOENT);
  EXPECT_TRUE(contains(address.error().message, dir / "missing")) << address.error().message;
}

// ---- channels

TEST_F(ChannelTest, ConnectToNothingIsENOENT) {
  auto channel = Channel::connect(at(dir / "nobody"));
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().fault, Fault::System);
  EXPECT_EQ(channel.error().code, ENOENT);
  EXPECT_TRUE(contains(channel.error().message, dir / "nobody")) << channel.error().message;
  EXPECT_TRUE(contains(channel.error().message, errno_text(ENOENT))) << channel.error().message;
}

TEST_F(ChannelTest, ConnectToAStaleFileIsECONNREFUSED) {
  leave_stale_socket(dir / "stale");
  for (const std::string& text : {dir / "stale", "@cudaipc-test-nobody-" + dir.path()}) {
    auto channel = Channel::connect(at(text));
    ASSERT_FALSE(channel) << text;
    EXPECT_EQ(channel.error().fault, Fault::System);
    EXPECT_EQ(channel.error().code, ECONNREFUSED);
    EXPECT_TRUE(contains(channel.error().message, errno_text(ECONNREFUSED)))
        << channel.error().message;
  }
  EXPECT_TRUE(exists(dir / "stale"));
}

TEST_F(ChannelTest, EmptyChannelIsFalse) {
  EXPECT_FALSE(Channel());
  Ends ends;
  EXPECT_TRUE(ends.a);
  Channel moved = std::move(ends.a);
  EXPECT_TRUE(moved);
  EXPECT_FALSE(ends.a);
}

TEST_F(ChannelTest, OwnDescriptorsAreCloseOnExec) {
  Ends ends;
  auto listener = Listener::bind(at(dir / "s"));
  ASSERT_TRUE(listener);
  auto client = Channel::connect(listener->address());
  ASSERT_TRUE(client);
  ASSERT_TRUE(wait_for(listener->fd()));
  auto server = listener->accept();
  ASSERT_TRUE(server && *server);
  for (int fd : {ends.a.fd(), ends.b.fd(), listener->fd(), client->fd(), (*server)->fd()}) {
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC) << fd;
    EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK) << fd;
  }
  const int lock = descriptor_of(dir / "s.lock");
  ASSERT_GE(lock, 0);
  EXPECT_TRUE(fcntl(lock, F_GETFD) & FD_CLOEXEC);
}

TEST_F(ChannelTest, PacketsKeepTheirBoundsAndOrder) {
  Ends ends;
  EXPECT_EQ(ends.b.receive(ends.packet), Received::Nothing);
  ASSERT_EQ(ends.a.send(bytes_of("one")), Sent::Yes);
  ASSERT_EQ(ends.a.send(bytes_of("three")), Sent::Yes);
  ASSERT_EQ(ends.b.send(bytes_of("back")), Sent::Yes);
  for (const char* expected : {"one", "three"}) {
    ASSERT_TRUE(wait_for(ends.b.fd()));
    ASSERT_EQ(ends.b.receive(ends.packet), Received::Yes);
    EXPECT_EQ(text_of(ends.packet), expected);
    EXPECT_EQ(ends.packet.bytes().size(), ends.packet.size);
    EXPECT_EQ(ends.packet.n_fds, 0u);
    EXPECT_FALSE(ends.packet.fd);
  }
  EXPECT_EQ(ends.b.receive(ends.packet), Received::Nothing);
  EXPECT_EQ(ends.packet.size, 0u);
  ASSERT_EQ(ends.a.receive(ends.packet), Received::Yes);
  EXPECT_EQ(text_of(ends.packet), "back");
}

TEST_F(ChannelTest, DescriptorArrivesCloseOnExec) {
  Ends ends;
  auto [reader, writer] = make_pipe();
  ASSERT_EQ(fcntl(reader.get(), F_SETFD, 0), 0);
  ASSERT_EQ(ends.a.send(bytes_of("fd"), reader.get()), Sent::Yes);
  ASSERT_EQ(fcntl(reader.get(), F_GETFD), 0) << "the borrowed descriptor was closed or changed";
  ASSERT_EQ(ends.b.receive(ends.packet), Received::Yes);
  EXPECT_EQ(text_of(ends.packet), "fd");
  EXPECT_EQ(ends.packet.n_fds, 1u);
  ASSERT_TRUE(ends.packet.fd);
  EXPECT_NE(ends.packet.fd.get(), reader.get());
  EXPECT_TRUE(fcntl(ends.packet.fd.get(), F_GETFD) & FD_CLOEXEC);
  reader.reset();
  ASSERT_EQ(write(writer.get(), "x", 1), 1);
  char c = 0;
  ASSERT_TRUE(wait_for(ends.packet.fd.get()));
  ASSERT_EQ(read(ends.packet.fd.get(), &c, 1), 1);
  EXPECT_EQ(c, 'x');
}

TEST_F(ChannelTest, PacketUsedAgainClosesTheOldDescriptor) {
  Ends ends;
  auto [reader, writer] = make_pipe();
  ASSERT_EQ(ends.a.send(bytes_of("fd"), reader.get()), Sent::Yes);
  ASSERT_EQ(ends.a.send(bytes_of("none")), Sent::Yes);
  const size_t before = open_descriptors();
  ASSERT_EQ(ends.b.receive(ends.packet), Received::Yes);
  EXPECT_EQ(open_descriptors(), before + 1);
  ASSERT_EQ(ends.b.receive(ends.packet), Received::Yes);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_FALSE(ends.packet.fd);
  EXPECT_EQ(ends.packet.n_fds, 0u);
}

TEST_F(ChannelTest, BadDescriptorIsNotSent) {
  Ends ends;
  UniqueFd fd(dup(ends.a.fd()));
  const int closed = fd.get();
  fd.reset();
  EXPECT_EQ(ends.a.send(bytes_of("fd"), closed), Sent::Closed);
  EXPECT_EQ(ends.b.receive(ends.packet), Received::Nothing);
}

TEST_F(ChannelTest, SeveralDescriptorsAreCountedAndClosed) {
  Ends ends;
  auto first = make_pipe();
  auto second = make_pipe();
  const std::vector<int> three = {first[0].get(), first[1].get(), second[0].get()};
  const std::vector<int> most(253, second[1].get());  // SCM_MAX_FD
  const size_t before = open_descriptors();
  for (const auto& fds : {three, most}) {
    ASSERT_EQ(send_raw(ends.a.fd(), "many", fds), 4);
    ASSERT_EQ(ends.b.receive(ends.packet), Received::Yes);
    EXPECT_EQ(text_of(ends.packet), "many");
    EXPECT_EQ(ends.packet.n_fds, fds.size());
    EXPECT_EQ(inode(ends.packet.fd.get()), inode(fds[0]));
    EXPECT_TRUE(fcntl(ends.packet.fd.get(), F_GETFD) & FD_CLOEXEC);
    EXPECT_EQ(open_descriptors(), before + 1);
  }
}

TEST_F(ChannelTest, DescriptorsNeverReceivedDoNotLeak) {
  Ends ends;
  auto [reader, writer] = make_pipe();
  ASSERT_EQ(ends.a.send(bytes_of("fd"), writer.get()), Sent::Yes);
  writer.reset();
  ends.b = Channel();
  ASSERT_TRUE(wait_for(reader.get())) << "the writer is still open somewhere";
  char c = 0;
  EXPECT_EQ(read(reader.get(), &c, 1), 0);
}

TEST_F(ChannelTest, OversizedPacketIsBroken) {
  Ends ends;
  auto [reader, writer] = make_pipe();
  const int size = 1 << 20;
  ASSERT_EQ(setsockopt(ends.a.fd(), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
  const std::string fits(Packet::kCapacity, 'f');
  const std::string over(Packet::kCapacity + 1, 'o');
  ASSERT_EQ(send_raw(ends.a.fd(), fits, {}), static_cast<ssize_t>(fits.size()));
  ASSERT_EQ(ends.b.receive(ends.packet), Received::Yes);
  EXPECT_EQ(text_of(ends.packet), fits);
  ASSERT_EQ(send_raw(ends.a.fd(), over, {reader.get()}), static_cast<ssize_t>(over.size()));
  ASSERT_EQ(ends.b.receive(ends.packet), Received::Broken);
  EXPECT_EQ(ends.packet.size, 0u);
}

// In a child with no descriptor left: the kernel drops the one that came and says so.
TEST_F(ChannelTest, LostDescriptorIsBroken) {
  Ends ends;
  auto [reader, writer] = make_pipe();
  ASSERT_EQ(ends.a.send(bytes_of("fd"), reader.get()), Sent::Yes);
  Child child([&](int out) {
    // Lowest number not in use: with the limit there, no descriptor can be made.
    UniqueFd next(dup(out));
    const rlimit limit{static_cast<rlim_t>(next.get()), static_cast<rlim_t>(next.get())};
    next.reset();
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
      _exit(1);
    const Received received = ends.b.receive(ends.packet);
    report(out, received == Received::Broken ? "broken" : "not broken");
  });
  EXPECT_EQ(child.next(), "broken");
}

TEST_F(ChannelTest, FullQueueWouldBlockUntilRead) {
  Ends ends;
  const std::string kilobyte(1024, 'k');
  int sent = 0;
  Sent result = Sent::Yes;
  while (sent < 100000 && (result = ends.a.send(bytes_of(kilobyte))) == Sent::Yes)
    ++sent;
  ASSERT_EQ(result, Sent::WouldBlock);
  ASSERT_GT(sent, 0);
  EXPECT_EQ(ends.a.send(bytes_of(kilobyte)), Sent::WouldBlock);
  for (int i = 0; i < sent; ++i) {
    ASSERT_EQ(ends.b.receive(ends.packet), Received::Yes) << i;
    ASSERT_EQ(ends.packet.size, kilobyte.size());
  }
  EXPECT_EQ(ends.b.receive(ends.packet), Received::Nothing) << "a refused packet arrived";
  ASSERT_TRUE(wait_for(ends.a.fd(), POLLOUT));
  ASSERT_EQ(ends.a.send(bytes_of("again")), Sent::Yes);
  ASSERT_EQ(ends.b.receive(ends.packet), Received::Yes);
  EXPECT_EQ(text_of(ends.packet), "again");
}

// The limit on descriptors in flight (RLIMIT_NOFILE) binds only users without privileges.
TEST_F(ChannelTest, TooManyDescriptorsInFlightWouldBlock) {
  Ends ends;
  auto [reader, writer] = make_pipe();
  Child child([&](int out) {
    const rlimit limit{64, 64};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
      _exit(1);
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0)
      _exit(1);
    int sent = 0;
    Sent result = Sent::Yes;
    while (sent < 1000 && (result = ends.a.send(bytes_of("f"), reader.get())) == Sent::Yes)
      ++sent;
    if (result != Sent::WouldBlock)
      report(out, result == Sent::Closed ? "closed" : "no limit");
    for (int i = 0; i < sent; ++i)
      if (ends.b.receive(ends.packet) != Received::Yes)
        report(out, "lost");
    report(out, ends.a.send(bytes_of("f"), reader.get()) == Sent::Yes ? "recovered" : "stuck");
  });
  EXPECT_EQ(child.next(), "recovered");
}

TEST_F(ChannelTest, QueuedPacketsOutliveThePeer) {
  Ends ends;
  auto [reader, writer] = make_pipe();
  EXPECT_FALSE(ends.b.hung_up());
  ASSERT_EQ(ends.a.send(bytes_of("one")), Sent::Yes);
  ASSERT_EQ(ends.a.send(bytes_of("two"), reader.get()), Sent::Yes);
  EXPECT_FALSE(ends.b.hung_up());
  ends.a = Channel();
  EXPECT_TRUE(ends.b.hung_up());
  ASSERT_EQ(ends.b.receive(ends.packet), Received::Yes);
  EXPECT_EQ(text_of(ends.packet), "one");
  ASSERT_EQ(ends.b.receive(ends.packet), Received::Yes);
  EXPECT_EQ(text_of(ends.packet), "two");
  EXPECT_EQ(inode(ends.packet.fd.get()), inode(reader.get()));
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(ends.b.receive(ends.packet), Received::Closed);
  EXPECT_FALSE(ends.packet.fd);
  EXPECT_TRUE(ends.b.hung_up());
  EXPECT_EQ(ends.b.send(bytes_of("late")), Sent::Closed);
}

// The peer had not read all: the kernel reports ECONNRESET, ahead of what is queued here.
TEST_F(ChannelTest, QueuedPacketsOutliveAPeerThatDidNotReadAll) {
  Ends ends;
  ASSERT_EQ(ends.b.send(bytes_of("never read")), Sent::Yes);
  ASSERT_EQ(ends.a.send(bytes_of("one")), Sent::Yes);
  ASSERT_EQ(ends.a.send(bytes_of("two")), Sent::Yes);
  ends.a = Channel();
  EXPECT_TRUE(ends.b.hung_up());
  for (const char* expected : {"one", "two"}) {
    ASSERT_EQ(ends.b.receive(ends.packet), Received::Yes);
    EXPECT_EQ(text_of(ends.packet), expected);
  }
  EXPECT_EQ(ends.b.receive(ends.packet), Received::Closed);
}

TEST_F(ChannelTest, PeerDeathHangsUp) {
  auto listener = Listener::bind(at(dir / "s"));
  ASSERT_TRUE(listener) << listener.error().message;
  Child child([&](int) {
    auto client = Channel::connect(at(dir / "s"));
    if (client && client->send(bytes_of("last words")) == Sent::Yes)
      pause();
  });
  ASSERT_TRUE(wait_for(listener->fd()));
  auto server = listener->accept();
  ASSERT_TRUE(server && *server);
  ASSERT_TRUE(wait_for((*server)->fd()));
  EXPECT_FALSE((*server)->hung_up());
  child.kill();
  EXPECT_TRUE((*server)->hung_up());
  Packet packet;
  ASSERT_EQ((*server)->receive(packet), Received::Yes);
  EXPECT_EQ(text_of(packet), "last words");
  EXPECT_EQ((*server)->receive(packet), Received::Closed);
}

TEST_F(ChannelTest, HalfClosedPeerHangsUp) {
  Ends ends;
  ASSERT_EQ(::shutdown(ends.a.fd(), SHUT_WR), 0);
  EXPECT_TRUE(ends.b.hung_up());
  EXPECT_EQ(ends.b.receive(ends.packet), Received::Closed);
}

TEST_F(ChannelTest, ShutdownWakesBothSides) {
  Ends ends;
  ends.a.shutdown();
  ASSERT_TRUE(wait_for(ends.a.fd()));
  ASSERT_TRUE(wait_for(ends.b.fd()));
  EXPECT_TRUE(ends.a.hung_up());
  EXPECT_TRUE(ends.b.hung_up());
  EXPECT_EQ(ends.a.receive(ends.packet), Received::Closed);
  EXPECT_EQ(ends.b.receive(ends.packet), Received::Closed);
  EXPECT_EQ(ends.a.send(bytes_of("late")), Sent::Closed);
  EXPECT_EQ(ends.b.send(bytes_of("late")), Sent::Closed);
}

// ---- listeners

TEST_F(ListenerTest, AcceptsOnPathAndAbstractName) {
  for (const std::string& text : {dir / "s", "@cudaipc-test-" + dir.path()}) {
    auto listener = Listener::bind(at(text));
    ASSERT_TRUE(listener) << listener.error().message;
    EXPECT_EQ(listener->address().text(), text);
    auto nobody = listener->accept();
    ASSERT_TRUE(nobody) << nobody.error().message;
    EXPECT_FALSE(*nobody);
    expect_serves(*listener);
    expect_serves(*listener);
  }
}

TEST_F(ListenerTest, ClientThatLeftBeforeAcceptIsClosed) {
  auto listener = Listener::bind(at(dir / "s"));
  ASSERT_TRUE(listener);
  { ASSERT_TRUE(Channel::connect(listener->address())); }
  auto server = listener->accept();
  ASSERT_TRUE(server && *server);
  EXPECT_TRUE((*server)->hung_up());
  Packet packet;
  EXPECT_EQ((*server)->receive(packet), Received::Closed);
}

TEST_F(ListenerTest, PeerIsTheProcessThatConnected) {
  auto listener = Listener::bind(at(dir / "s"));
  ASSERT_TRUE(listener);
  Child child([&](int out) {
    auto client = Channel::connect(at(dir / "s"));
    if (!client)
      _exit(1);
    auto peer = client->peer();
    report(out, peer ? std::to_string(peer->pid) : peer.error().message);
    pause();
  });
  EXPECT_EQ(child.next(), std::to_string(getpid()));
  ASSERT_TRUE(wait_for(listener->fd()));
  auto server = listener->accept();
  ASSERT_TRUE(server && *server);
  auto peer = (*server)->peer();
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_EQ(peer->pid, child.pid());
  EXPECT_EQ(peer->uid, geteuid());
  EXPECT_EQ(peer->gid, getegid());
}

TEST_F(ListenerTest, LiveSinkKeepsItsAddress) {
  for (const std::string& text : {dir / "s", "@cudaipc-test-" + dir.path()}) {
    auto first = Listener::bind(at(text));
    ASSERT_TRUE(first) << first.error().message;
    for (int i = 0; i < 2; ++i) {
      auto second = Listener::bind(at(text));
      ASSERT_FALSE(second) << text;
      EXPECT_EQ(second.error().fault, Fault::System);
      EXPECT_EQ(second.error().code, EADDRINUSE);
      EXPECT_TRUE(contains(second.error().message, "'" + text + "'")) << second.error().message;
    }
    expect_serves(*first);
  }
}

TEST_F(ListenerTest, LiveSinkInAnotherProcessKeepsItsAddress) {
  const std::string text = dir / "s";
  Child child([&](int out) {
    auto listener = Listener::bind(at(text));
    report(out, listener ? "bound" : listener.error().message);
    pause();
  });
  ASSERT_EQ(child.next(), "bound");
  auto second = Listener::bind(at(text));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EADDRINUSE);
  EXPECT_TRUE(contains(second.error().message, text)) << second.error().message;
  EXPECT_TRUE(Channel::connect(at(text)));
}

TEST_F(ListenerTest, FileOfAKilledSinkIsReplacedAtOnce) {
  const std::string text = dir / "s";
  Child child([&](int out) {
    auto listener = Listener::bind(at(text));
    report(out, listener ? "bound" : listener.error().message);
    pause();
  });
  ASSERT_EQ(child.next(), "bound");
  child.kill();
  ASSERT_TRUE(exists(text));
  auto listener = Listener::bind(at(text));
  ASSERT_TRUE(listener) << listener.error().message;
  expect_serves(*listener);
}

TEST_F(ListenerTest, OneOfTwoStartersWinsAStaleFile) {
  for (int round = 0; round < 30; ++round) {
    const std::string text = dir / ("s" + std::to_string(round));
    ASSERT_NO_FATAL_FAILURE(leave_stale_socket(text));
    auto [gate, opener] = make_pipe();
    const auto start = [&, &gate = gate, &opener = opener](int out) {
      opener.reset();  // or this child would hold the gate shut itself
      if (!wait_for(gate.get()))
        _exit(1);
      auto listener = Listener::bind(at(text));
      report(out, listener ? "won" : words(listener.error()));
      pause();
    };
    Child a(start), b(start);
    opener.reset();
    const std::string of_a = a.next(), of_b = b.next();
    EXPECT_NE(of_a == "won", of_b == "won") << round << ": " << of_a << " / " << of_b;
    const std::string& loser = of_a == "won" ? of_b : of_a;
    EXPECT_TRUE(contains(loser, std::to_string(EADDRINUSE) + " ")) << loser;
    EXPECT_TRUE(contains(loser, text)) << loser;
    auto client = Channel::connect(at(text));
    ASSERT_TRUE(client) << client.error().message;
    auto server = client->peer();
    ASSERT_TRUE(server);
    EXPECT_EQ(server->pid, of_a == "won" ? a.pid() : b.pid());
  }
}

TEST_F(ListenerTest, LiveSocketOfAnotherProgramIsKept) {
  const std::string text = dir / "s";
  for (int type : {SOCK_SEQPACKET, SOCK_STREAM, SOCK_DGRAM}) {
    UniqueFd foreign = foreign_socket(text, type, type == SOCK_DGRAM ? -1 : 4);
    const ino_t before = inode(text);
    auto listener = Listener::bind(at(text));
    ASSERT_FALSE(listener) << type;
    EXPECT_EQ(listener.error().code, EADDRINUSE);
    EXPECT_TRUE(contains(listener.error().message, text)) << listener.error().message;
    EXPECT_EQ(inode(text), before);
    ASSERT_EQ(unlink(text.c_str()), 0);
  }
}

TEST_F(ListenerTest, BusySocketOfAnotherProgramIsKept) {
  const std::string text = dir / "s";
  UniqueFd foreign = foreign_socket(text, SOCK_SEQPACKET, 0);
  auto waiting = Channel::connect(at(text));  // fills the backlog
  ASSERT_TRUE(waiting) << waiting.error().message;
  const ino_t before = inode(text);
  auto listener = Listener::bind(at(text));
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().code, EADDRINUSE);
  EXPECT_EQ(inode(text), before);
}

TEST_F(ListenerTest, FileThatIsNoSocketIsKept) {
  const std::string text = dir / "s";
  std::ofstream(text) << "precious";
  auto file = Listener::bind(at(text));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, EEXIST);
  EXPECT_TRUE(contains(file.error().message, text)) << file.error().message;
  std::string content;
  std::ifstream(text) >> content;
  EXPECT_EQ(content, "precious");

  const std::string link = dir / "link";
  ASSERT_EQ(symlink("nowhere", link.c_str()), 0);
  auto dangling = Listener::bind(at(link));
  ASSERT_FALSE(dangling);
  EXPECT_EQ(dangling.error().code, EEXIST);
  EXPECT_TRUE(exists(link));
  EXPECT_FALSE(exists(dir / "nowhere"));
}

TEST_F(ListenerTest, LockBehindALinkIsRefused) {
  const std::string text = dir / "s";
  ASSERT_EQ(symlink("elsewhere", (text + ".lock").c_str()), 0);
  auto listener = Listener::bind(at(text));
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().code, ELOOP);
  EXPECT_FALSE(exists(dir / "elsewhere"));
}

TEST_F(ListenerTest, MissingFolderIsNamed) {
  const std::string text = dir / "missing/s";
  auto listener = Listener::bind(at(text));
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().fault, Fault::System);
  EXPECT_EQ(listener.error().code, ENOENT);
  EXPECT_TRUE(contains(listener.error().message, text)) << listener.error().message;
  EXPECT_TRUE(contains(listener.error().message, errno_text(ENOENT))) << listener.error().message;
  EXPECT_FALSE(exists(dir / "missing"));
}

TEST_F(ListenerTest, MissingPermissionIsNamed) {
  const std::string text = dir / "s";
  ASSERT_EQ(chmod(dir.path().c_str(), 0555), 0);
  Child child([&](int out) {
    if (geteuid() == 0 && seteuid(kNobody) != 0)
      _exit(1);
    auto listener = Listener::bind(at(text));
    report(out, listener ? "bound" : words(listener.error()));
  });
  const std::string said = child.next();
  EXPECT_EQ(said.rfind(std::to_string(EACCES) + " ", 0), 0u) << said;
  EXPECT_TRUE(contains(said, text)) << said;
  EXPECT_TRUE(contains(said, errno_text(EACCES))) << said;
  EXPECT_FALSE(exists(text));
  ASSERT_EQ(chmod(dir.path().c_str(), 0700), 0);
}

TEST_F(ListenerTest, SocketIsItsUsersAlone) {
  for (mode_t mask : {0u, 0777u}) {
    const mode_t old = umask(mask);
    auto listener = Listener::bind(at(dir / ("s" + std::to_string(mask))));
    umask(old);
    ASSERT_TRUE(listener) << listener.error().message;
    EXPECT_EQ(mode_of(listener->address().text()), 0600u);
    EXPECT_EQ(mode_of(listener->address().text() + ".lock") & 077, 0u);
  }
  auto group = Listener::bind(at(dir / "group"), 0660);
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(mode_of(dir / "group"), 0660u);
}

TEST_F(ListenerTest, SocketFileGoesAndTheAddressIsFree) {
  const std::string text = dir / "s";
  for (int i = 0; i < 3; ++i) {
    auto listener = Listener::bind(at(text));
    ASSERT_TRUE(listener) << listener.error().message;
    Listener moved = std::move(*listener);
    EXPECT_TRUE(exists(text));
    expect_serves(moved);
  }
  EXPECT_FALSE(exists(text));
  EXPECT_TRUE(exists(text + ".lock"));
  auto client = Channel::connect(at(text));
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, ENOENT);
}

TEST_F(ListenerTest, MovedFromListenerLeavesTheFile) {
  auto bound = Listener::bind(at(dir / "s"));
  ASSERT_TRUE(bound);
  std::optional<Listener> from(std::move(*bound));
  Listener to = std::move(*from);
  from.reset();
  EXPECT_TRUE(exists(dir / "s"));
  expect_serves(to);
}

TEST_F(ListenerTest, AcceptedChannelsOutliveTheListener) {
  Channel server;
  std::optional<Channel> client;
  {
    auto listener = Listener::bind(at(dir / "s"));
    ASSERT_TRUE(listener);
    auto connected = Channel::connect(listener->address());
    ASSERT_TRUE(connected);
    client = std::move(*connected);
    ASSERT_TRUE(wait_for(listener->fd()));
    auto accepted = listener->accept();
    ASSERT_TRUE(accepted && *accepted);
    server = std::move(**accepted);
  }
  Packet packet;
  ASSERT_EQ(client->send(bytes_of("still here")), Sent::Yes);
  ASSERT_TRUE(wait_for(server.fd()));
  ASSERT_EQ(server.receive(packet), Received::Yes);
  EXPECT_EQ(text_of(packet), "still here");
}

}  // namespace
}  // namespace cudaipc::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
