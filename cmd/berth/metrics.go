package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/berth-backup/berth/worker/backup"
)

// serveMetrics answers GET /metrics on a listener of its own until ctx ends.
func serveMetrics(ctx context.Context, address string, collector prometheus.Collector, log *slog.Logger) (wait func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{collector, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for --metrics-listen: %w", err)
	}
	routes := http.NewServeMux()
	routes.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	log.Info("serving metrics", "address", listener.Addr().String())
	served := make(chan error, 1)
	go func() { served <- serveHTTP(ctx, listener, routes, log) }()
	return func() error { return <-served }, nil
}

// poolCollector tells what the pools of the running backups are doing. A series
// lives as long as its backup runs.
type poolCollector struct {
	engine              *backup.Cluster
	workers, open, done *prometheus.Desc
}

func newPoolCollector(cluster string, engine *backup.Cluster) poolCollector {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("berth_"+name, help, []string{"backup", "attempt"}, prometheus.Labels{"cluster": cluster})
	}
	return poolCollector{
		engine:  engine,
		workers: describe("item_block_workers", "Workers in the pool of a running backup."),
		open:    describe("item_blocks_open", "Blocks of a running backup that are on their way to its workers or being backed up."),
		done:    describe("item_blocks_done", "Blocks of a running backup that are over."),
	}
}

func (p poolCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.workers, p.open, p.done} {
		to <- d
	}
}

func (p poolCollector) Collect(to chan<- prometheus.Metric) {
	for _, pool := range p.engine.Pools() {
		for desc, value := range map[*prometheus.Desc]int{p.workers: pool.Workers, p.open: pool.BlocksOpen, p.done: pool.BlocksDone} {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), pool.Backup, fmt.Sprint(pool.Attempt))
		}
	}
}
