module @jit_mlp attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x6xf32>) -> (tensor<3x4xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[[0.172792092, 0.41080907, 0.165218532, -0.651578605, 0.452677935, 0.223187283, -0.268476605, 0.290559053], [0.182286203, 0.14706625, 0.014211121, 0.273356497, -0.368227035, -0.0814549774, -0.241059661, 0.299423099], [0.0198610537, -0.146228373, -0.390954226, -0.128596127, 0.00407109037, -0.137801453, 0.647031903, 0.503362179], [-1.35558128, -0.944506645, -0.0873860493, -0.211095199, 0.1068215, 0.108660966, 1.05891943, -0.556010365], [-0.18880251, 1.02138579, 0.323351502, 0.331531674, -0.257003188, -0.824037611, 0.083732374, 0.0545070432], [-6.136760e-01, -0.341613322, -0.0360218398, -0.47237581, -0.0491349846, 0.0477415137, 0.017793119, -0.253145844]]> : tensor<6x8xf32>
    %cst_0 = stablehlo.constant dense<[0.296874046, 0.445583463, 0.160424158, -0.409115106, 0.36582613, -0.250720024, 0.439580321, -0.535893679]> : tensor<8xf32>
    %cst_1 = stablehlo.constant dense<[[0.457233608, -0.0100317271, -0.624374449, -0.156949729], [0.0270511396, 0.136395663, -0.491094053, -0.5536865], [0.0997922644, -0.233374804, 0.117752805, 0.379759759], [-0.824393689, 0.127194062, 0.612323462, -0.148763418], [-0.40540728, 0.376121908, 0.12672326, 0.447941542], [-0.172607854, -0.740909159, -0.0550053827, -0.22291407], [0.387661904, 0.0968164205, -0.815424621, -0.597581565], [0.441894531, 0.339882523, -0.320121676, -5.24398289E-4]]> : tensor<8x4xf32>
    %cst_2 = stablehlo.constant dense<[0.222786784, 0.234202161, 0.43812111, 0.128242821]> : tensor<4xf32>
    %0 = stablehlo.dot_general %arg0, %cst, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6xf32>, tensor<6x8xf32>) -> tensor<3x8xf32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<3x8xf32>
    %3 = stablehlo.add %0, %2 : tensor<3x8xf32>
    %4 = call @relu(%3) : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %5 = stablehlo.dot_general %4, %cst_1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %6 = stablehlo.broadcast_in_dim %cst_2, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<3x4xf32>
    %8 = stablehlo.add %5, %7 : tensor<3x4xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_3) applies stablehlo.maximum across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %cst_4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %11 = stablehlo.maximum %10, %9 : tensor<3xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<3xf32>) -> tensor<3x1xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x4xf32>
    %14 = stablehlo.subtract %8, %13 : tensor<3x4xf32>
    %15 = stablehlo.exponential %14 : tensor<3x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%15 init: %cst_5) applies stablehlo.add across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0] : (tensor<3xf32>) -> tensor<3x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x4xf32>
    %19 = stablehlo.divide %15, %18 : tensor<3x4xf32>
    return %19 : tensor<3x4xf32>
  }
  func.func private @relu(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<3x8xf32>
    return %1 : tensor<3x8xf32>
  }
}
