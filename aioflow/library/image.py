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
    "aioflow.kernels.image.webp": "decode_webp",
    "aioflow.kernels.nn.patches": "extract_image_patches",
    "aioflow.library.decoding": "decode_image",
    "aioflow.library.image_boxes": (
        "combined_non_max_suppression draw_bounding_boxes non_max_suppression non_max_suppression_overlaps "
        "non_max_suppression_padded non_max_suppression_with_scores"
    ),
    "aioflow.library.image_color": (
        "adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_saturation convert_image_dtype "
        "grayscale_to_rgb hsv_to_rgb image_gradients psnr random_brightness random_contrast random_flip_left_right "
        "random_flip_up_down random_hue random_saturation rgb_to_grayscale rgb_to_hsv rgb_to_yiq rgb_to_yuv "
        "sobel_edges total_variation yiq_to_rgb yuv_to_rgb"
    ),
    "aioflow.library.image_geometry": (
        "ResizeMethod central_crop crop_and_resize crop_to_bounding_box extract_patches flip_left_right flip_up_down "
        "pad_to_bounding_box per_image_standardization resize resize_image_with_crop_or_pad "
        "resize_image_with_pad resize_images resize_with_crop_or_pad rot90 transpose transpose_image"
    ),
    "aioflow.library.image_jpeg": "adjust_jpeg_quality random_jpeg_quality",
    "aioflow.library.image_parts": "extract_glimpse sample_distorted_bounding_box",
    "aioflow.library.image_similarity": "ssim ssim_multiscale",
    "aioflow.library.random": "random_crop",
})  # fmt: skip
