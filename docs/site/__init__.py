"""The documentation site: `make docs` builds it in build/docs/site, from the pages of `docs/` and the docstrings.

`pages` gathers the pages, `reference` writes those of the API, `build` runs zensical over all by `zensical.toml`, which
has the navigation. Only `build` needs the packages of `requirements.txt`.
"""
