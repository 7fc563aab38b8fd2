// Package provider defines what the controller of Networks needs from a provider of networks: the
// actual state, and three ways to change it. Package memory is a provider that only remembers,
// package neutron is OpenStack's.
package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// A Provider manages networks. It identifies them by the namespace and name of their Network
// objects. Its methods are safe for concurrent use, but calls for the same key must not overlap;
// the controller ensures that.
type Provider interface {
	// Get returns the actual state of a network: ErrNotFound if it does not exist, ErrTaken if the
	// name belongs to another owner. A network that is incomplete has the zero Spec.
	Get(ctx context.Context, key types.NamespacedName) (Network, error)
	// Create creates a network that does not exist. If it fails, a part of it may exist.
	Create(ctx context.Context, key types.NamespacedName, spec Spec) (Network, error)
	// Update changes an existing network, which may be incomplete, to spec.
	Update(ctx context.Context, key types.NamespacedName, spec Spec) (Network, error)
	// Delete removes a network and all its parts, but nothing that has another owner. It returns
	// nil if the network does not exist.
	Delete(ctx context.Context, key types.NamespacedName) error
}

// A Network is the actual state of a network.
type Network struct {
	ID string // the provider's own name for it
	Spec
}

// A Spec is the desired state of a network. Specs compare with ==.
type Spec struct {
	CIDR    netip.Prefix // without bits behind the prefix
	Gateway netip.Addr   // in CIDR
}

var (
	// ErrNotFound is the error of Get when there is no such network.
	ErrNotFound = errors.New("there is no such network")
	// ErrTaken is the error of Get when there is a network of that name, and the provider did not make
	// it.
	ErrTaken = errors.New("a network of this name has another owner")
)

// ParseSpec reads a range of addresses, of which bits behind the prefix do not count, and the
// address of a gateway in it.
func ParseSpec(cidr, gateway string) (Spec, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return Spec{}, fmt.Errorf("cidr %q: want a range of addresses, like 192.168.0.0/16", cidr)
	}
	address, err := netip.ParseAddr(gateway)
	if err != nil || address.Zone() != "" {
		return Spec{}, fmt.Errorf("gateway %q: want an address, like 192.168.0.1", gateway)
	}
	spec := Spec{CIDR: prefix.Masked(), Gateway: address}
	if !spec.CIDR.Contains(address) {
		return Spec{}, fmt.Errorf("gateway %s is not in cidr %s", address, spec.CIDR)
	}
	return spec, nil
}

// String implements fmt.Stringer.
func (s Spec) String() string {
	switch {
	case s == (Spec{}):
		return "incomplete"
	case !s.Gateway.IsValid():
		return fmt.Sprintf("cidr %s, no gateway", s.CIDR)
	}
	return fmt.Sprintf("cidr %s, gateway %s", s.CIDR, s.Gateway)
}

// LastAddr is the last address of a range.
func LastAddr(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// A Change is what must happen to a network.
type Change string

// The changes.
const (
	None   Change = "none"
	Create Change = "create"
	Update Change = "update"
)

// Diff compares what is wanted with what there is, as Get says.
func Diff(wanted Spec, actual Network, err error) (Change, error) {
	switch {
	case errors.Is(err, ErrNotFound):
		return Create, nil
	case err != nil:
		return None, err
	case actual.Spec != wanted:
		return Update, nil
	}
	return None, nil
}
