package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// DialFunc opens connections, as [net.Dialer] does.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// How connections are opened unless the caller does it, as in client-go.
const (
	dialTimeout      = 30 * time.Second
	handshakeTimeout = 10 * time.Second
	idlePerHost      = 25
)

// Config returns a configuration for client-go whose connections are opened by dial, nil:
// as usual, and carry the certificate of the moment. They are closed when it changes, which
// Run sees to, and new ones carry the new one. Each configuration has connections of its
// own.
func (c *Client) Config(dial DialFunc) (*rest.Config, error) {
	server := rest.CopyConfig(c.server)
	host, _, err := rest.DefaultServerUrlFor(server) // without its authorities it would no longer know that it is https
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	config, err := rest.TLSConfigFor(server)
	if err != nil {
		return nil, fmt.Errorf("authorities of the API server: %w", err)
	}
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if cert := c.manager.Current(); cert != nil {
			return cert, nil
		}
		return &tls.Certificate{}, nil // nobody's, which crypto/tls sends as none
	}
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	dialer := connrotation.NewDialer(dial)
	c.mu.Lock()
	c.dialers = append(c.dialers, dialer)
	c.mu.Unlock()
	return &rest.Config{
		Host:          host.String(),
		UserAgent:     c.cfg.UserAgent,
		ContentConfig: rest.ContentConfig{ContentType: plain},
		Transport: utilnet.SetTransportDefaults(&http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialer.DialContext,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: handshakeTimeout,
			MaxIdleConnsPerHost: idlePerHost,
		}),
	}, nil
}

// closeAll closes all connections.
func (c *Client) closeAll() {
	c.mu.Lock()
	dialers := c.dialers
	c.mu.Unlock()
	for _, d := range dialers {
		d.CloseAll()
	}
}

// How often the certificate is looked at, while there is none, too, and how long there may
// be none that is valid, as in the kubelet.
const (
	lookEvery = 10 * time.Second
	waitEvery = time.Second
	patience  = 5 * time.Minute
)

// ErrLost is why Run returned: there has been no valid certificate for five minutes
// although the API server answers. A new start may find another identity, or a bootstrap.
var ErrLost = errors.New("there is no valid client certificate although the API server answers; start anew, with a kubeconfig that is valid or with --bootstrap-kubeconfig")

// Run gets the first certificate, renews it when 70 to 90 percent of its life are over, and
// closes the connections of the old one. It returns nil when ctx ends, and ErrLost. With
// Config.Once the first one is also the last.
func (c *Client) Run(ctx context.Context) error {
	if !c.cfg.Once || c.manager.Current() == nil {
		c.manager.Start()
		defer c.manager.Stop()
	}
	w := rotation{last: c.manager.Current(), valid: time.Now()}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil
		}
		current := c.manager.Current()
		changed, lost := w.look(current, time.Now())
		if changed {
			c.cfg.Log.Info("client certificate has changed, connections to the API server are closed", "expires", expiry(current.Leaf))
			c.closeAll()
			if c.cfg.Once {
				c.manager.Stop()
			}
		}
		if lost && !c.cfg.Once && c.manager.ServerHealthy() {
			return ErrLost
		}
		if current == nil {
			pause.Reset(min(waitEvery, c.look))
		} else {
			pause.Reset(c.look)
		}
	}
}

// rotation is what was seen of a certificate.
type rotation struct {
	// last is the last one that was there.
	last *tls.Certificate
	// valid is when there was one.
	valid time.Time
}

// look takes the certificate of a moment, nil if there is none that is valid. It tells
// whether it is another one, and whether there was none for too long.
func (r *rotation) look(current *tls.Certificate, at time.Time) (changed, lost bool) {
	if current == nil {
		return false, at.Sub(r.valid) > patience
	}
	changed = current != r.last
	r.last, r.valid = current, at
	return changed, false
}
