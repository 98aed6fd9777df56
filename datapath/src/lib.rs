//! An OVS-style userspace datapath.
