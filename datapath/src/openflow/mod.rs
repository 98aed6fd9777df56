//! The slow path: OpenFlow bridges, tables, groups, NORMAL, and translation of a miss into a megaflow and datapath actions.
