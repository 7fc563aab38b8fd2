// Package memory is a provider of networks for experiments and tests. It keeps networks in memory
// and prints each change.
package memory

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/kapok-dev/kapok/examples/network/provider"

	"k8s.io/apimachinery/pkg/types"
)

// A Provider keeps networks in memory.
type Provider struct {
	mu       sync.Mutex
	out      io.Writer
	last     int // the number in the ID of the newest network
	networks map[types.NamespacedName]provider.Network
}

var _ provider.Provider = (*Provider)(nil)

// New returns a provider without networks, which writes a line to out for each change.
func New(out io.Writer) *Provider {
	return &Provider{out: out, networks: map[types.NamespacedName]provider.Network{}}
}

// Get returns a network.
func (p *Provider) Get(_ context.Context, key types.NamespacedName) (provider.Network, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	network, ok := p.networks[key]
	if !ok {
		return provider.Network{}, provider.ErrNotFound
	}
	return network, nil
}

// Create creates a network.
func (p *Provider) Create(_ context.Context, key types.NamespacedName, spec provider.Spec) (provider.Network, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if network, ok := p.networks[key]; ok {
		return network, fmt.Errorf("create %s: it exists", key)
	}
	p.last++
	network := provider.Network{ID: fmt.Sprintf("memory-%d", p.last), Spec: spec}
	p.networks[key] = network
	fmt.Fprintf(p.out, "[memory] create %s: %s\n", key, spec)
	return network, nil
}

// Update changes a network.
func (p *Provider) Update(_ context.Context, key types.NamespacedName, spec provider.Spec) (provider.Network, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	network, ok := p.networks[key]
	if !ok {
		return network, fmt.Errorf("update %s: %w", key, provider.ErrNotFound)
	}
	fmt.Fprintf(p.out, "[memory] update %s: %s -> %s\n", key, network.Spec, spec)
	network.Spec = spec
	p.networks[key] = network
	return network, nil
}

// Delete deletes a network.
func (p *Provider) Delete(_ context.Context, key types.NamespacedName) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.networks[key]; ok {
		delete(p.networks, key)
		fmt.Fprintf(p.out, "[memory] delete %s\n", key)
	}
	return nil
}
