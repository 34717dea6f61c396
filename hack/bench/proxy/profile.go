package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// profileFor is how long one CPU profile lasts; the updates of a kind take less.
const profileFor = 8 * time.Second

// profile begins a CPU profile of the proxy in its namespace. The function that it
// returns waits for its end.
func (who contender) profile(ctx context.Context, c *cluster, name string) func() error {
	if who.profiles == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() { done <- fetchProfile(ctx, c.net.node, filepath.Join(who.profiles, who.name+"-"+name+".pprof")) }()
	return func() error { return <-done }
}

func fetchProfile(ctx context.Context, ns, path string) error {
	dial := func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		return conn, inside(ns, func() error {
			conn, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, addr)
			return err
		})
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	url := fmt.Sprintf("http://127.0.0.1:10249/debug/pprof/profile?seconds=%d", int(profileFor.Seconds()))
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil && time.Since(began) < profileFor {
			continue // the port is not open yet
		}
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		return os.WriteFile(path, data, 0o644)
	}
}
