// What libronde_mpi.so exports.
#include "backends/mpi/factory.h"

RONDE_DEFINE_MODULE(ronde::create_mpi_backend)
