"""`af.image`: images resized, cropped, padded, rotated and adjusted.

An image is [height, width, channels], or a batch of them; the ops come from kernels.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.image.decode_image": (
        "decode_and_crop_jpeg decode_bmp decode_gif decode_jpeg decode_png encode_jpeg encode_png extract_jpeg_shape "
        "is_jpeg"
    ),
    "aioflow.kernels.image.resize": "resize_area resize_bicubic resize_bilinear resize_nearest_neighbor",
    "aioflow.kernels.nn.patches": "extract_image_patches",
    "aioflow.library.crops": "crop_and_resize",
    "aioflow.library.decoding": "decode_image",
    "aioflow.library.image_basics": "adjust_brightness adjust_contrast convert_image_dtype",
    "aioflow.library.image_color": (
        "adjust_gamma adjust_hue adjust_saturation hsv_to_rgb rgb_to_hsv rgb_to_yiq rgb_to_yuv yiq_to_rgb yuv_to_rgb"
    ),
    "aioflow.library.image_geometry": (
        "central_crop crop_to_bounding_box extract_patches flip_left_right flip_up_down grayscale_to_rgb "
        "pad_to_bounding_box per_image_standardization resize resize_image_with_crop_or_pad resize_image_with_pad "
        "resize_images resize_with_crop_or_pad ResizeMethod rgb_to_grayscale rot90 transpose transpose_image"
    ),
    "aioflow.library.image_measures": "image_gradients psnr sobel_edges total_variation",
    "aioflow.library.image_random": (
        "random_brightness random_contrast random_flip_left_right random_flip_up_down random_hue random_saturation"
    ),
    "aioflow.library.random": "random_crop",
})  # fmt: skip
