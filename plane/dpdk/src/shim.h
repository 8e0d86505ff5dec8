/* What bindgen reads: DPDK's headers, and in C what cannot be bound from Rust: inline functions,
 * thread-local variables and macros that are expressions. */
#include <stdio.h>

#include <rte_config.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

/* `rte_errno` of the calling thread. */
int hg_errno(void);

uint16_t hg_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t most);
uint16_t hg_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);

/* 0, or a negative error and nothing allocated. */
int hg_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned count);
void hg_mbuf_free(struct rte_mbuf *mbuf);
/* Returns an mbuf whose fields are as a free mbuf's must be. */
void hg_mbuf_raw_free(struct rte_mbuf *mbuf);

/* A stream that hands what is written to it to `take`, unbuffered. NULL when there is no memory. */
FILE *hg_log_stream(void (*take)(const char *text, size_t length));

/* Makes libbpf and libxdp, which the af_xdp driver brings along, write to DPDK's log instead of stderr. */
void hg_log_bpf(void);

static const uint64_t HG_MBUF_EXTERNAL = RTE_MBUF_F_EXTERNAL;
static const uint64_t HG_MBUF_VLAN_STRIPPED = RTE_MBUF_F_RX_VLAN_STRIPPED;
static const uint32_t HG_POOL_PINNED = RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF;
static const uint64_t HG_RX_VLAN_STRIP = RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
static const uint64_t HG_RSS_FLOWS = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
static const uint16_t HG_HEADROOM_BYTES = RTE_PKTMBUF_HEADROOM;
