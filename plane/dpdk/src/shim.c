#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/types.h>

int hg_errno(void)
{
	return rte_errno;
}

uint16_t hg_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t most)
{
	return rte_eth_rx_burst(port, queue, mbufs, most);
}

uint16_t hg_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, mbufs, count);
}

int hg_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned count)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, count);
}

void hg_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

void hg_mbuf_raw_free(struct rte_mbuf *mbuf)
{
	rte_mbuf_raw_free(mbuf);
}

static ssize_t write_to(void *cookie, const char *text, size_t length)
{
	((void (*)(const char *, size_t))cookie)(text, length);
	return (ssize_t)length;
}

FILE *hg_log_stream(void (*take)(const char *text, size_t length))
{
	cookie_io_functions_t functions = { .write = write_to };
	FILE *stream = fopencookie((void *)take, "w", functions);

	if (stream != NULL)
		setvbuf(stream, NULL, _IONBF, 0);
	return stream;
}

/* The levels of libbpf.h and libxdp.h: warnings are 0. */
static int log_warning(int level, const char *format, va_list arguments)
{
	return level == 0 ? vfprintf(rte_log_get_stream(), format, arguments) : 0;
}

static void set_print(const char *library, const char *setter)
{
	/* Only if a driver has loaded it; never unloaded, as drivers are not. */
	void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
	void *(*set)(int (*)(int, const char *, va_list));

	if (handle == NULL)
		return;
	*(void **)&set = dlsym(handle, setter);
	if (set != NULL)
		set(log_warning);
}

void hg_log_bpf(void)
{
	set_print("libbpf.so.1", "libbpf_set_print");
	set_print("libxdp.so.1", "libxdp_set_print");
}
