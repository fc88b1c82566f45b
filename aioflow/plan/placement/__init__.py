"""Which device each node of a flow runs on: chosen by simulating the step [P15 section 3.2.1], within what is demanded.

colocation    which nodes must share a device
rules         what is asked for, what is there
constraints   the devices that each node may be put on
spanning      branches and loops that cannot be on one device are lowered
work          the flow as numbers
simulation    the step as it would run
assignment    nodes put on devices one by one, each where it would end first
refinement    nodes moved for as long as that makes the step shorter
report        where all is, and why
packing       nodes put where there is memory for what they make, for devices that take turns
"""
