// Package provider says what the controller of Networks needs from who has the networks: the actual state, and the three ways to
// change it. Package memory is a provider that only remembers, package neutron is OpenStack's.
package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// A Provider has networks. It knows them by namespace and name, as the API server knows the Networks that they are for. Its methods
// are safe for concurrent use, but calls for one key must not overlap; a controller sees to that.
type Provider interface {
	// Get returns what there is of a network: ErrNotFound if there is nothing, ErrTaken if the name belongs to somebody else. A
	// network that was made in part has the zero Spec.
	Get(ctx context.Context, key types.NamespacedName) (Network, error)
	// Create makes a network that does not exist. When it fails, a part may be there.
	Create(ctx context.Context, key types.NamespacedName, spec Spec) (Network, error)
	// Update makes a network that exists, be it in part, what spec says.
	Update(ctx context.Context, key types.NamespacedName, spec Spec) (Network, error)
	// Delete removes a network and all its parts. It is no error if there is none. What belongs to others stays.
	Delete(ctx context.Context, key types.NamespacedName) error
}

// A Network is the actual state of a network.
type Network struct {
	ID string // the provider's own name for it
	Spec
}

// A Spec is what a network is to be like. Specs compare with ==.
type Spec struct {
	CIDR    netip.Prefix // without bits behind the prefix
	Gateway netip.Addr   // in CIDR
}

var (
	// ErrNotFound is the error of Get when there is no such network.
	ErrNotFound = errors.New("there is no such network")
	// ErrTaken is the error of Get when there is a network of that name, and the provider did not make it.
	ErrTaken = errors.New("a network of this name was made by somebody else")
)

// ParseSpec reads a range of addresses, of which bits behind the prefix do not count, and the address of a gateway in it.
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
