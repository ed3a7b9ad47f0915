"""The hardware that is aimed at, and where data files lie.

`profile`  one GPU's peaks, limits and measured ceilings; `schema` the YAML file that it is read from
`match`    which profile describes a GPU that the driver names
`limits`   what a launch may ask, and how many blocks an SM holds at once
`data`     the data folders, in a checkout and in an installed wheel
"""
