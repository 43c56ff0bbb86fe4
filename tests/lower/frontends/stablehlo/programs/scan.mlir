module @jit_scan attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5xf32>, %arg1: tensor<4x3xf32>) -> (tensor<5xf32> {jax.result_info = "result[0]"}, tensor<4xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<[[0.0190125387, -0.241272449, -0.391199291, -0.0921209976, 0.0978073477], [0.917950809, 0.0260162354, 0.678679049, 0.883744537, 0.039403934], [0.803899466, 0.357467711, -0.208767653, 0.132590011, 0.011438909], [-0.116169512, -0.0993906185, 0.0721046552, 0.217090577, -0.442440927], [-0.00469383085, -0.761177539, 0.130397752, 0.311799735, 0.0819774195]]> : tensor<5x5xf32>
    %cst_0 = stablehlo.constant dense<[[0.142926574, 0.294971555, -0.332550436, -0.119524427, 2.554610e-01], [0.500942886, 0.197460696, 1.27642965, -0.0456802845, 0.499830216], [0.633363843, -0.06688492, -0.410256445, -0.591301441, 0.081138499]]> : tensor<3x5xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:6 = stablehlo.while(%iterArg = %arg1, %iterArg_2 = %cst, %iterArg_3 = %cst_0, %iterArg_4 = %c, %iterArg_5 = %arg0, %iterArg_6 = %0) : tensor<4x3xf32>, tensor<5x5xf32>, tensor<3x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4xf32>
    cond {
      %c_7 = stablehlo.constant dense<4> : tensor<i32>
      %2 = stablehlo.compare LT, %iterArg_4, %c_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_4) : (tensor<4x3xf32>, tensor<i32>) -> tensor<3xf32>
      %3:2 = func.call @closed_call(%iterArg_2, %iterArg_3, %iterArg_5, %2) : (tensor<5x5xf32>, tensor<3x5xf32>, tensor<5xf32>, tensor<3xf32>) -> (tensor<5xf32>, tensor<f32>)
      %4 = func.call @dynamic_update_index_in_dim(%iterArg_6, %3#1, %iterArg_4) : (tensor<4xf32>, tensor<f32>, tensor<i32>) -> tensor<4xf32>
      %c_7 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %iterArg_4, %c_7 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_2, %iterArg_3, %5, %3#0, %4 : tensor<4x3xf32>, tensor<5x5xf32>, tensor<3x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4xf32>
    }
    return %1#4, %1#5 : tensor<5xf32>, tensor<4xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<4x3xf32>, %arg1: tensor<i32>) -> tensor<3xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3xf32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func private @closed_call(%arg0: tensor<5x5xf32>, %arg1: tensor<3x5xf32>, %arg2: tensor<5xf32>, %arg3: tensor<3xf32>) -> (tensor<5xf32>, tensor<f32>) {
    %0 = stablehlo.dot_general %arg2, %arg0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<5xf32>, tensor<5x5xf32>) -> tensor<5xf32>
    %1 = stablehlo.dot_general %arg3, %arg1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3xf32>, tensor<3x5xf32>) -> tensor<5xf32>
    %2 = stablehlo.add %0, %1 : tensor<5xf32>
    %3 = stablehlo.tanh %2 : tensor<5xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<5xf32>, tensor<f32>) -> tensor<f32>
    return %3, %4 : tensor<5xf32>, tensor<f32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<4xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>) -> tensor<4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2 : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
