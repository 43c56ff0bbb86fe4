module @jit_cnn attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6x6x2xf32>) -> (tensor<2x5xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[[[[-0.0474141687, -0.129424036, 0.52787143, -1.12542713], [-0.0693276599, 0.0165000521, -0.712674499, 0.16640681]], [[-0.3256405, 0.431222409, -0.0627960414, 0.334576607], [0.609421789, 0.191464797, -0.437860578, -0.757159292]], [[0.876692057, -0.0556460954, -0.344282478, 0.0721285418], [-0.0957056656, 0.426071137, 0.016964091, 0.00687479181]]], [[[-0.357289851, 0.234784052, -0.516933382, 0.332944721], [0.761968731, -0.762342989, -1.2331146, 0.308439374]], [[1.27394891, -0.500462413, -0.625347853, 0.294484466], [-0.420360804, -0.253012747, -0.174058735, 0.266001046]], [[-0.202651188, 0.138941422, -0.088266626, -0.422335565], [-0.159913123, -0.475199819, 0.00325749302, -0.5619331]]], [[[-0.546447158, 0.728480935, -0.0265921094, -0.0269510131], [0.25576821, -0.210428506, -0.114267685, 0.212574363]], [[0.141207919, -0.579648376, 0.416671306, -0.295217484], [-0.528039455, -0.450237542, -0.195272669, 0.813650131]], [[-0.587767959, 0.080037944, -1.06891215, -7.83466559E-4], [0.449783206, -0.118331663, -0.314677447, 0.115755536]]]]> : tensor<3x3x2x4xf32>
    %cst_0 = stablehlo.constant dense<"0x253DB33E76E5A93E067A7C3FFF2FD63D30A897BEB00081BD1E7A14BDB5B15E3DE3FC75BC2124B23D6ADE55BF9062D43E1D2293BE102A16BFA943A33E239E283F306E7C3EF206A53DFDA5EEBEC2C7B73FA158E13E68D411BF5A96C7BE2D22323D6E0147BF73ADAC3D6D0B6BBE6FF61C3FC54FF63EB385ADBF55D0AA3C2D094FBF9E080E3FF223AC3D4D648C3E025608BF010A6A3FE248813F6B4A08BFA0E13E3E8C5DACBEBD1541BC640022BFA0FE6E3F261CF8BE4C9817BE2F61803E89C6A5BE510EF5BDB34A90BEF0A988BD57D415BFF93F60BEBDDBD3BD23DE2ABEBA33E83C7E1116BE76D2C03EF07925BEDFED8BBD1C2FAABEADC986BEE6DA21BF17CF843E083E12BF72F0BEBEEAEE373E191E4E3ED7DB4CBEA73B81BF854D573E80E5043EE8C834BFD433C53E477BB3BEEF2610BF770E443DF4C0B6BDAB7CCF3D27894DBF28F7673FD6479ABE8E1345BF716C9E3EE3A835BEDA53263E28E12DBE4FB2F4BCE0ABFB3DA524BFBEE1C1AD3EBF9670BED1A3DEBE2DC31D3D73DC633EC693EABD19CEDCBE44AA9E3E745261BF5BF303BFC1E2A13C32372EBF3A54653C26B8E0BCD013E63EB32FEABE693BA0BECA962A3EB9489DBF1867C63FC6DAB2BE78D6BABEDA72DC3EB726A3BC51C463BF507EA03E0BFADA3E5C5F66BEEC2D10BEF9D2783ED3A5E8BE7774603EE914CC3D62C8ACBE653032BF3705E7BDAC1BE0BE362E003F1D8B933DB136C83E55DA893DFA9A063E9E72C8BE2805AB3EFE70643F5E8F1EBE12C097BEF29FA1BD5F6A76BE2694B3BEA2828D3D25F314BE032D383F1E70D338CAD7253EB5B7F33EACFC19BEFCE6373F3FF8A1BE90EECEBE5A873BBEF4F06ABD655E33BF8CBF8FBC337055BF9731323FBBE125BD5757A4BED988E8BE12D444BEF26EE4BD89B205BFB177EBBECEAABFBD155285BE4570F03EBDA5113FE63E033CA57B723E74E72ABFCF2DA33E2F8A7ABC7226783E78D84C3F93F991BF009B053EEFAF0CBF349A973EA81A28BF03A57DBE"> : tensor<36x5xf32>
    %0 = stablehlo.convolution(%arg0, %cst) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x6x6x2xf32>, tensor<3x3x2x4xf32>) -> tensor<2x6x6x4xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<2x6x6x4xf32>
    %2 = stablehlo.multiply %1, %0 : tensor<2x6x6x4xf32>
    %cst_1 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x6x6x4xf32>
    %4 = stablehlo.multiply %3, %2 : tensor<2x6x6x4xf32>
    %5 = stablehlo.add %0, %4 : tensor<2x6x6x4xf32>
    %cst_2 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x6x6x4xf32>
    %7 = stablehlo.multiply %6, %5 : tensor<2x6x6x4xf32>
    %8 = stablehlo.tanh %7 : tensor<2x6x6x4xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x6x6x4xf32>
    %10 = stablehlo.add %9, %8 : tensor<2x6x6x4xf32>
    %cst_4 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x6x6x4xf32>
    %12 = stablehlo.multiply %11, %10 : tensor<2x6x6x4xf32>
    %13 = stablehlo.multiply %0, %12 : tensor<2x6x6x4xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<f32>
    %15 = "stablehlo.reduce_window"(%13, %14) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %18 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
      stablehlo.return %18 : tensor<f32>
    }) : (tensor<2x6x6x4xf32>, tensor<f32>) -> tensor<2x3x3x4xf32>
    %16 = stablehlo.reshape %15 : (tensor<2x3x3x4xf32>) -> tensor<2x36xf32>
    %17 = stablehlo.dot_general %16, %cst_0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x36xf32>, tensor<36x5xf32>) -> tensor<2x5xf32>
    return %17 : tensor<2x5xf32>
  }
}
