//! Flow caches: simple match, EMC, SMC, the datapath classifier (dpcls), and the linear matcher that is their oracle.
