//! What a world is made of besides hosts and links: datapaths with their bridges.

pub mod switch;
