// Messages between two ranks: here a token goes round the ring, and each rank adds its number.
//   ronde run -np 3 build/release/examples/05_send_recv
#include <ronde/ronde.h>

#include <cstdio>
#include <span>

int main() {
  auto job = ronde::init();
  if (job.size() == 1) {
    std::printf("this example needs at least 2 ranks\n");
    return 0;
  }
  constexpr int kTag = 7;
  const int next = (job.rank() + 1) % job.size();
  const int previous = (job.rank() + job.size() - 1) % job.size();

  int token = 0;
  if (job.rank() == 0) {
    job.send_async(next, kTag, std::as_bytes(std::span(&token, 1))).wait();
    job.recv_async(previous, kTag, std::as_writable_bytes(std::span(&token, 1))).wait();
    std::printf("the ring of %d ranks sums to %d\n", job.size(), token);
  } else {
    job.recv_async(previous, kTag, std::as_writable_bytes(std::span(&token, 1))).wait();
    token += job.rank();
    job.send_async(next, kTag, std::as_bytes(std::span(&token, 1))).wait();
  }
}
