"""TensorFlow's part of ronde.tensorflow and ronde.keras: operations, gradients, errors."""
