module @jit_attention attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x6xf32>, %arg1: tensor<4x6xf32>, %arg2: tensor<4x6xf32>, %arg3: tensor<i32>) -> (tensor<1x6xf32> {jax.result_info = "result[0]"}, tensor<4x6xf32> {jax.result_info = "result[1]"}, tensor<4x6xf32> {jax.result_info = "result[2]"}) {
    %cst = stablehlo.constant dense<[[0.101366878, 0.306754678, 0.0373970456, -0.396415472, -0.276766121, 0.442251444], [-0.0027498079, -0.841907203, 0.42183134, 0.208124235, 0.436707765, -0.168313727], [0.414078265, -0.530532479, 0.284999907, -0.245190158, 0.337175846, 0.502822042], [-0.367995083, -0.0256147403, 0.0194773134, 0.59483242, 0.355279058, -0.60963875], [0.228804126, 0.372544616, 1.061903, -0.839574575, -0.268176138, 0.666685581], [-0.677535176, -0.599730313, 0.258541107, 0.509204328, -0.334340245, 0.270063579]]> : tensor<6x6xf32>
    %cst_0 = stablehlo.constant dense<[[0.0584776364, 0.759374499, -7.59219867E-4, 0.495123655, -0.451558918, -0.092439428], [-0.0483522266, 5.695540e-01, 0.289806515, -0.375876576, 0.340983868, 0.385315627], [-0.0558228604, -0.128831163, -0.0969016253, -0.847496211, 0.094371505, 0.117288962], [-0.432764262, 0.371223122, -0.686483442, -0.275906414, -0.237609535, 0.993754923], [-7.995920e-01, 0.281315118, 0.471061647, 0.188862786, 5.909040e-01, -0.501368821], [-1.14012933, 0.383408934, -0.5979141, -0.163199931, -5.894230e-01, 0.526170909]]> : tensor<6x6xf32>
    %cst_1 = stablehlo.constant dense<[[0.432575107, -0.360031843, 0.451745927, 0.0606386289, -0.0696944147, 0.0287083313], [-0.101374678, 0.307502627, 0.155173779, -0.174733579, 0.503127873, -0.305737793], [0.143466815, 0.21107769, 0.739403545, -0.252720684, 0.871541202, 0.0880824775], [-0.0969884544, -0.336236387, 0.2931467, 0.0244676229, -0.551804662, -0.563943565], [-0.277759612, -3.380030e-01, 0.545151174, 0.687769175, 0.434279799, 0.17893444], [-0.214119107, 0.0272416063, 0.442353517, 1.06548607, 0.456449598, -0.140206069]]> : tensor<6x6xf32>
    %0 = stablehlo.dot_general %arg0, %cst, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x6xf32>, tensor<6x6xf32>) -> tensor<1x6xf32>
    %1 = stablehlo.dot_general %arg0, %cst_0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x6xf32>, tensor<6x6xf32>) -> tensor<1x6xf32>
    %2 = stablehlo.dot_general %arg0, %cst_1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x6xf32>, tensor<6x6xf32>) -> tensor<1x6xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.compare LT, %arg3, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<4> : tensor<i32>
    %4 = stablehlo.add %arg3, %c_2 : tensor<i32>
    %5 = stablehlo.select %3, %4, %arg3 : tensor<i1>, tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.dynamic_update_slice %arg1, %1, %5, %c_3 : (tensor<4x6xf32>, tensor<1x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.compare LT, %arg3, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_5 = stablehlo.constant dense<4> : tensor<i32>
    %8 = stablehlo.add %arg3, %c_5 : tensor<i32>
    %9 = stablehlo.select %7, %8, %arg3 : tensor<i1>, tensor<i32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %10 = stablehlo.dynamic_update_slice %arg2, %2, %9, %c_6 : (tensor<4x6xf32>, tensor<1x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %11 = stablehlo.transpose %6, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %12 = stablehlo.dot_general %0, %11, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x6xf32>, tensor<6x4xf32>) -> tensor<1x4xf32>
    %cst_7 = stablehlo.constant dense<2.44948983> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %14 = stablehlo.divide %12, %13 : tensor<1x4xf32>
    %15 = stablehlo.iota dim = 0 : tensor<4xi32>
    %16 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %17 = stablehlo.compare LE, %15, %16, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %cst_8 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %18 = call @_where(%17, %14, %cst_8) : (tensor<4xi1>, tensor<1x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %19 = stablehlo.reduce(%18 init: %cst_9) applies stablehlo.maximum across dimensions = [1] : (tensor<1x4xf32>, tensor<f32>) -> tensor<1xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %21 = stablehlo.maximum %20, %19 : tensor<1xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x4xf32>
    %24 = stablehlo.subtract %18, %23 : tensor<1x4xf32>
    %25 = stablehlo.exponential %24 : tensor<1x4xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.reduce(%25 init: %cst_11) applies stablehlo.add across dimensions = [1] : (tensor<1x4xf32>, tensor<f32>) -> tensor<1xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x4xf32>
    %29 = stablehlo.divide %25, %28 : tensor<1x4xf32>
    %30 = stablehlo.dot_general %29, %10, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4xf32>, tensor<4x6xf32>) -> tensor<1x6xf32>
    return %30, %6, %10 : tensor<1x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
  }
  func.func private @_where(%arg0: tensor<4xi1>, %arg1: tensor<1x4xf32>, %arg2: tensor<f32>) -> tensor<1x4xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<4xi1>) -> tensor<1x4xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x4xi1>, tensor<1x4xf32>
    return %3 : tensor<1x4xf32>
  }
}
