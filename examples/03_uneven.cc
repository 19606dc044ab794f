// Ranks may hold different numbers of rows: allgather puts them one after the other, alltoall deals
// them out as the splits say.
//   ronde run -np 3 build/release/examples/03_uneven
#include <ronde/ronde.h>

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  auto job = ronde::init();

  const std::int64_t rows = job.rank() + 1;  // rank r brings r + 1 rows of two elements
  std::vector<std::int32_t> mine(static_cast<std::size_t>(2 * rows), job.rank());
  const ronde::Array all =
      job.allgather_async("rows", ronde::tensor(mine.data(), {rows, 2})).output();
  std::printf("rank %d gathered %lld rows; the last is of rank %d\n", job.rank(),
              static_cast<long long>(all.shape[0]), all.as<std::int32_t>().back());

  // Everybody sends its rank to everybody, once to rank 0, twice to rank 1, and so on.
  std::vector<std::int64_t> splits;
  std::vector<std::int32_t> letters;
  for (int to = 0; to < job.size(); ++to) {
    splits.push_back(to + 1);
    letters.insert(letters.end(), static_cast<std::size_t>(to + 1), job.rank());
  }
  const ronde::Array got = job.alltoall_async("letters", ronde::tensor(letters), splits).output();
  std::printf("rank %d got %lld letters\n", job.rank(), static_cast<long long>(got.count()));
}
