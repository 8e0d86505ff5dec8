//! Bytes and their meaning: Ethernet, VLAN, IP, L4, checksums.
