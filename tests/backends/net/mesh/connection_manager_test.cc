// The one thread of a process that makes its connections.
#include "backends/net/mesh/connection_manager.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "core/base/bytes.h"
#include "tests/backends/net/processes.h"

namespace ronde::net {
namespace {

constexpr int kRanks = 8;

/// A service's call-backs, as they come.
class Arrivals {
 public:
  struct Arrival {
    int rank = -1;
    Stream stream;
    Status status;
  };

  void put(Arrival arrival) {
    const std::lock_guard lock(mutex_);
    arrivals_.push_back(std::move(arrival));
    changed_.notify_all();
  }
  /// The next one; of rank -1 after 20 s.
  Arrival take() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return !arrivals_.empty(); });
    if (arrivals_.empty()) return {};
    Arrival first = std::move(arrivals_.front());
    arrivals_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Arrival> arrivals_;
};

/// One rank: its manager and where it listens. Made after the arrivals that it writes to.
struct Rank {
  explicit Rank(int number) : rank(number) {
    FileDescriptor listener = listen_on(interface_endpoint("127.0.0.1").value()).value();
    endpoint = local_endpoint(listener.get()).value();
    manager = ConnectionManager::create(kRanks).value();
    manager->listen(std::move(listener));
  }

  ConnectionManager::ServiceId add(const std::string& context, Arrivals& arrivals,
                                   std::byte secret = std::byte{1}) const {
    std::array<std::byte, Secret::kBytes> bytes{};
    bytes[0] = secret;
    Identity identity;
    identity.purpose = Purpose::kData;
    identity.rank = rank;
    identity.size = kRanks;
    identity.context = context;
    identity.keys = Keys::derive(Secret(bytes)).value();
    identity.self = {"1", "node", "node", "", ::getpid()};
    return manager->add({.identity = std::move(identity),
                         .on_link =
                             [&](Link link) {
                               arrivals.put({link.rank, std::move(link.stream), {}});
                             },
                         .on_failure =
                             [&](int from, const Status& why) {
                               arrivals.put({from, {}, why});
                             }});
  }

  int rank;
  Endpoint endpoint;
  std::shared_ptr<ConnectionManager> manager;
};

bool carries(Stream& from, Stream& to, std::string_view text) {
  const TimePoint limit = now() + std::chrono::seconds(20);
  std::string got(text.size(), '\0');
  return send_all(from, as_bytes(text), limit).ok() &&
         recv_all(to, std::as_writable_bytes(std::span<char>(got)), limit).ok() && got == text;
}

/// The end of a stream.
Status end_of(Stream& stream) {
  std::array<std::byte, 1> byte{};
  return recv_all(stream, byte, now() + std::chrono::seconds(20));
}

/// A field of the manager's thread in this process, from its file `status` or `schedstat`.
std::string thread_file(const char* file) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "ronde-connect") continue;
    std::ifstream in(task.path() / file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  return {};
}

TEST_CASE("a manager accepts at several addresses, and dials from the one it is told") {
  Arrivals accepted;
  Arrivals dialed;
  const Rank low(0);
  const Rank high(3);
  std::vector<Endpoint> endpoints;
  for (const char* address : {"127.0.0.1", "127.0.0.2"}) {
    FileDescriptor listener = listen_on(interface_endpoint(address).value()).value();
    endpoints.push_back(local_endpoint(listener.get()).value());
    low.manager->listen(std::move(listener));
  }
  low.add("job", accepted);
  const auto service = high.add("job", dialed);
  for (const Endpoint& endpoint : endpoints) {
    const Endpoint source = interface_endpoint("127.0.0.3").value();
    high.manager->dial(service, 0, {endpoint, source});
    auto near = dialed.take();
    auto far = accepted.take();
    CHECK(local_endpoint(near.stream.fd())->host() == "127.0.0.3");
    CHECK(local_endpoint(far.stream.fd())->host() == endpoint.host());
    CHECK(carries(near.stream, far.stream, "there"));
  }
}

TEST_CASE("connections find the service of their purpose and context") {
  Arrivals low_a;
  Arrivals low_b;
  Arrivals high_a;
  Arrivals high_b;
  const Rank low(0);
  const Rank high(3);
  low.add("a", low_a);
  low.add("b", low_b);
  const auto a = high.add("a", high_a);
  const auto b = high.add("b", high_b);
  high.manager->dial(b, 0, {low.endpoint});
  high.manager->dial(a, 0, {low.endpoint});
  for (auto [dialed, accepted] : {std::pair(&high_a, &low_a), std::pair(&high_b, &low_b)}) {
    auto near = dialed->take();
    auto far = accepted->take();
    CHECK(near.rank == 0);
    CHECK(far.rank == 3);
    CHECK(carries(near.stream, far.stream, "there"));
    CHECK(carries(far.stream, near.stream, "and back"));
  }
}

TEST_CASE("a dial waits for a service that is not there yet, and is given up at its deadline") {
  Arrivals dialed;
  Arrivals accepted;
  const Rank low(0);
  const Rank high(1);
  const auto service = high.add("late", dialed);
  high.manager->dial(service, 0, {low.endpoint}, now() + std::chrono::milliseconds(200));
  const auto given_up = dialed.take();
  CHECK(given_up.rank == 0);
  CHECK(given_up.status.code() == Code::kTimeout);
  CHECK(!given_up.status.message().empty());
  high.manager->dial(service, 0, {low.endpoint});
  low.add("late", accepted);
  CHECK(dialed.take().stream.valid());
  CHECK(accepted.take().rank == 1);
}

TEST_CASE("a rank with another secret is not let in") {
  Arrivals dialed;
  Arrivals accepted;
  const Rank low(0);
  const Rank high(1);
  low.add("job", accepted, std::byte{1});
  high.manager->dial(high.add("job", dialed, std::byte{2}), 0, {low.endpoint},
                     now() + std::chrono::milliseconds(200));
  const auto given_up = dialed.take();
  CHECK(given_up.status.code() == Code::kTimeout);
  CHECK(given_up.status.message().find("another secret") != std::string::npos);
}

TEST_CASE("a rank that only leaves at the proof has shown no other secret") {
  const auto identity = [](int rank, std::byte secret) {
    std::array<std::byte, Secret::kBytes> bytes{};
    bytes[0] = secret;
    auto made = std::make_shared<Identity>();
    made->rank = rank;
    made->size = kRanks;
    made->keys = Keys::derive(Secret(bytes)).value();
    return made;
  };
  const auto low = identity(0, std::byte{1});
  for (const std::byte secret : {std::byte{1}, std::byte{2}}) {
    const auto high = identity(1, secret);
    Connector connector(*low);
    FileDescriptor listener = listen_on(interface_endpoint("127.0.0.1").value()).value();
    Stream stream(start_connect({local_endpoint(listener.get()).value()}).value());
    connector.listen(std::move(listener));
    Handshake dialer(high, 0);
    REQUIRE(dialer.start().ok());
    REQUIRE(send_all(stream, as_bytes(dialer.take_output()), now() + std::chrono::seconds(5)).ok());
    CHECK(connector.next(now() + std::chrono::milliseconds(100))->kind ==
          ConnectorEvent::Kind::kTimeout);
    std::vector<std::byte> hello(dialer.wants());
    REQUIRE(recv_all(stream, hello, now() + std::chrono::seconds(5)).ok());
    const bool proves = dialer.consume(hello).ok();
    CHECK(proves == (secret == std::byte{1}));
    if (!proves) CHECK(send_all(stream, as_bytes(dialer.take_output()), now()).ok());
    stream = Stream();
    CHECK(connector.next(now() + std::chrono::milliseconds(100))->kind ==
          ConnectorEvent::Kind::kTimeout);
    CHECK(connector.unproven().contains(1) == !proves);
  }
}

TEST_CASE("a connection to a service that has ended is closed at once") {
  Arrivals dialed;
  Arrivals accepted;
  const Rank low(0);
  const Rank high(1);
  low.manager->remove(low.add("over", accepted));
  high.manager->dial(high.add("over", dialed), 0, {low.endpoint});
  auto link = dialed.take();
  REQUIRE(link.stream.valid());
  CHECK(end_of(link.stream).message().find("was closed") != std::string::npos);
  low.add("over", accepted);  // the same context again
  high.manager->dial(high.add("over", dialed), 0, {low.endpoint});
  CHECK(accepted.take().rank == 1);
}

TEST_CASE("a process that has ended is told from one that is late") {
  Endpoint endpoint;
  {
    const Rank low(0);
    endpoint = low.endpoint;
  }
  Arrivals dialed;
  const Rank high(1);
  high.manager->dial(high.add("job", dialed), 0, {endpoint});
  CHECK(dialed.take().status.code() == Code::kRankFailure);
}

TEST_CASE("no call-back runs once remove() has returned") {
  Arrivals dialed;
  const Rank low(0);
  const Rank high(1);
  std::promise<void> entered;
  std::promise<void> may_leave;
  std::atomic<bool> left{false};
  Identity identity;
  identity.purpose = Purpose::kData;
  identity.size = kRanks;
  identity.context = "slow";
  std::array<std::byte, Secret::kBytes> bytes{};
  bytes[0] = std::byte{1};
  identity.keys = Keys::derive(Secret(bytes)).value();
  identity.self.version = "1";
  const auto service = low.manager->add({.identity = identity,
                                         .on_link =
                                             [&](const Link&) {
                                               entered.set_value();
                                               may_leave.get_future().wait();
                                               left.store(true);
                                             },
                                         .on_failure = {}});
  high.manager->dial(high.add("slow", dialed), 0, {low.endpoint});
  entered.get_future().wait();
  std::thread remover([&] {
    low.manager->remove(service);
    CHECK(left.load());
  });
  may_leave.set_value();
  remover.join();
}

TEST_CASE("unauthenticated peers do not disturb a dial") {
  Arrivals dialed;
  Arrivals accepted;
  const Rank low(0);
  const Rank high(1);
  low.add("job", accepted);
  std::mt19937 random(3);
  std::vector<Stream> open;
  for (int i = 0; i < 300; ++i) {
    FileDescriptor fd = start_connect({low.endpoint}).value();
    REQUIRE(wait_for(fd.get(), POLLOUT, now() + std::chrono::seconds(20)));
    std::string garbage(static_cast<std::size_t>(i), '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    Stream& stream = open.emplace_back(std::move(fd));
    (void)send_all(stream, as_bytes(garbage), now()).ok();
  }
  high.manager->dial(high.add("job", dialed), 0, {low.endpoint});
  CHECK(dialed.take().stream.valid());
  CHECK(accepted.take().rank == 1);
}

TEST_CASE("the thread sleeps while nothing is to do") {
  CHECK(run_ranks(1, [](int) {
          Arrivals dialed;
          Arrivals accepted;
          const Rank low(0);
          const Rank high(1);
          low.add("job", accepted);
          high.manager->dial(high.add("job", dialed), 0, {low.endpoint});
          RONDE_CHILD_REQUIRE(dialed.take().stream.valid());
          RONDE_CHILD_REQUIRE(accepted.take().rank == 1);
          do {
            ::usleep(50'000);
          } while (thread_file("status").find("State:\tS") == std::string::npos);  // in poll()
          const std::string before = thread_file("schedstat");
          ::usleep(500'000);
          RONDE_CHILD_REQUIRE(!before.empty());
          RONDE_CHILD_REQUIRE(thread_file("schedstat") == before);  // it has not run at all
          return 0;
        }) == all_good(1));
}

/// Microseconds of CPU time of this process.
std::int64_t cpu_us() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
         usage.ru_stime.tv_usec;
}

/// Accepts one connection after half a second without a free descriptor, in which a rank dials.
int accept_late(int address) {
  Arrivals accepted;
  const Rank low(0);
  low.add("job", accepted);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const FileDescriptor next(::dup(0));
  const rlimit none{static_cast<rlim_t>(next.get() + 1), limit.rlim_max};
  RONDE_CHILD_REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  RONDE_CHILD_REQUIRE(::write(address, &low.endpoint, sizeof(Endpoint)) == sizeof(Endpoint));
  const std::int64_t before = cpu_us();
  ::usleep(500'000);
  RONDE_CHILD_REQUIRE(cpu_us() - before < 100'000);
  RONDE_CHILD_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  RONDE_CHILD_REQUIRE(accepted.take().rank == 1);
  return 0;
}

TEST_CASE("a process without a free descriptor accepts later, and does not spin meanwhile") {
  const Pipe address = make_pipe().value();
  CHECK(run_ranks(2, [&](int rank) {
          if (rank == 0) return accept_late(address.write.get());
          Endpoint endpoint;
          RONDE_CHILD_REQUIRE(::read(address.read.get(), &endpoint, sizeof(endpoint)) ==
                              sizeof(endpoint));
          Arrivals dialed;
          const Rank high(1);
          high.manager->dial(high.add("job", dialed), 0, {endpoint});
          RONDE_CHILD_REQUIRE(dialed.take().stream.valid());
          return 0;
        }) == all_good(2));
}

TEST_CASE("a forked child that destroys its copy does not disturb the parent") {
  CHECK(run_ranks(1, [](int) {
          Arrivals accepted;
          auto low = std::make_unique<Rank>(0);
          const auto service = low->add("job", accepted);
          const pid_t child = ::fork();
          if (child == 0) {
            low->manager->remove(service);
            low.reset();
            ::_exit(0);
          }
          int status = -1;
          ::waitpid(child, &status, 0);
          RONDE_CHILD_REQUIRE(status == 0);
          Arrivals dialed;
          const Rank high(1);
          high.manager->dial(high.add("job", dialed), 0, {low->endpoint});
          RONDE_CHILD_REQUIRE(dialed.take().stream.valid());
          RONDE_CHILD_REQUIRE(accepted.take().rank == 1);
          return 0;
        }) == all_good(1));
}

}  // namespace
}  // namespace ronde::net
