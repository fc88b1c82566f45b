"""Chooses the device of each node by simulating the step [P15 section 3.2.1], within the constraints of the user.

colocation    finds the nodes that must share a device
rules         finds the devices that fit a request
constraints   finds the devices that each node may run on; lowers branches and loops that need several
work          describes the flow by numbers
simulation    simulates the step
assignment    places nodes one by one, each on the device where it ends first
refinement    places all nodes, then moves nodes while that makes the step shorter
report        describes the placement and its reasons
packing       places nodes by memory, for devices that take turns
"""
