// Package neutron is a provider of networks in an OpenStack cloud, with version 2.0 of its
// Networking API.
//
// A network is a Neutron network with one subnet. Names in Neutron are not unique, any user of the
// project can create networks, and a network and its subnet need two requests. The provider
// therefore identifies its own objects:
//
//   - It gives them the name CLUSTER/NAMESPACE/NAME and a description that names the owner. It
//     never changes objects of the same name with another description, or subnets that others add
//     to one of its networks.
//   - It keeps no state: only the state of the cloud counts. The next Update completes whatever a
//     failure left behind, such as a network without a subnet, and the next Delete removes it.
//
// Neutron cannot change the range of a subnet, so Update replaces the subnet. Neutron does not
// delete a subnet with ports of virtual machines in it; the old network then remains until they are
// gone.
package neutron

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/kapok-dev/kapok/examples/network/provider"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/apimachinery/pkg/types"
)

// mark is the description of all objects that the provider creates.
const mark = "made by the Network controller of samplecrd.k8s.io"

// Options select the cloud and its credentials.
type Options struct {
	// Auth has the address of Keystone and the credentials.
	Auth gophercloud.AuthOptions
	// Region is the region of the cloud. Default: the first one that has networks.
	Region string
	// Cluster is the first part of all names, so that several Kubernetes clusters can share a project.
	// Default "kubernetes".
	Cluster string
	// HTTPClient sends the requests. Default: http.DefaultClient.
	HTTPClient *http.Client
}

// FromEnvironment returns the options in the OS_* variables of OpenStack's clients.
func FromEnvironment() (Options, error) {
	auth, err := openstack.AuthOptionsFromEnv()
	if err != nil {
		return Options{}, fmt.Errorf("OpenStack credentials: %w", err)
	}
	return Options{Auth: auth, Region: os.Getenv("OS_REGION_NAME")}, nil
}

// A Provider manages the networks of a project of an OpenStack cloud.
type Provider struct {
	client  *gophercloud.ServiceClient
	cluster string
}

var _ provider.Provider = (*Provider)(nil)

// New authenticates with the cloud, and returns its provider. Tokens are renewed when they expire.
func New(ctx context.Context, opts Options) (*Provider, error) {
	client, err := openstack.NewClient(opts.Auth.IdentityEndpoint)
	if err != nil {
		return nil, fmt.Errorf("address of Keystone: %w", err)
	}
	if opts.HTTPClient != nil {
		client.HTTPClient = *opts.HTTPClient
	}
	opts.Auth.AllowReauth = true
	if err := openstack.Authenticate(ctx, client, opts.Auth); err != nil {
		return nil, fmt.Errorf("authenticate with Keystone at %s: %w", opts.Auth.IdentityEndpoint, explain(err))
	}
	service, err := openstack.NewNetworkV2(client, gophercloud.EndpointOpts{Region: opts.Region})
	if err != nil {
		return nil, fmt.Errorf("find Neutron in the catalog of Keystone: %w", explain(err))
	}
	return &Provider{client: service, cluster: cmp.Or(opts.Cluster, "kubernetes")}, nil
}

// Get returns the network of that name and its subnet. A network with duplicates counts as
// incomplete.
func (p *Provider) Get(ctx context.Context, key types.NamespacedName) (provider.Network, error) {
	ours, others, err := p.networks(ctx, key)
	if err != nil {
		return provider.Network{}, err
	}
	if len(ours) == 0 {
		if others > 0 {
			return provider.Network{}, fmt.Errorf("%s: %w", p.name(key), provider.ErrTaken)
		}
		return provider.Network{}, provider.ErrNotFound
	}
	found, err := p.subnets(ctx, ours[0].ID)
	if err != nil {
		return provider.Network{}, err
	}
	actual := provider.Network{ID: ours[0].ID}
	if len(ours) == 1 && len(found) == 1 {
		actual.Spec = specOf(found[0])
	}
	return actual, nil
}

// Create creates a network with a subnet.
func (p *Provider) Create(ctx context.Context, key types.NamespacedName, spec provider.Spec) (provider.Network, error) {
	network, err := networks.Create(ctx, p.client, networks.CreateOpts{
		Name:        p.name(key),
		Description: mark,
	}).Extract()
	if err != nil {
		return provider.Network{}, fmt.Errorf("create network %s: %w", p.name(key), explain(err))
	}
	return provider.Network{ID: network.ID, Spec: spec}, p.complete(ctx, network.ID, p.name(key), spec)
}

// Update completes a network, replaces its subnet if the range has changed, and removes surplus
// networks and subnets of the provider.
func (p *Provider) Update(ctx context.Context, key types.NamespacedName, spec provider.Spec) (provider.Network, error) {
	ours, _, err := p.networks(ctx, key)
	if err != nil {
		return provider.Network{}, err
	}
	if len(ours) == 0 {
		return provider.Network{}, fmt.Errorf("update network %s: %w", p.name(key), provider.ErrNotFound)
	}
	for _, twin := range ours[1:] {
		if err := p.remove(ctx, twin.ID); err != nil {
			return provider.Network{}, err
		}
	}
	return provider.Network{ID: ours[0].ID, Spec: spec}, p.complete(ctx, ours[0].ID, p.name(key), spec)
}

// Delete removes all networks of the provider with that name, and their subnets.
func (p *Provider) Delete(ctx context.Context, key types.NamespacedName) error {
	ours, _, err := p.networks(ctx, key)
	if err != nil {
		return err
	}
	for _, network := range ours {
		err = errors.Join(err, p.remove(ctx, network.ID))
	}
	return err
}

// name returns the name of a network in Neutron, whose limit is 255 characters.
func (p *Provider) name(key types.NamespacedName) string {
	name := p.cluster + "/" + key.Namespace + "/" + key.Name
	if len(name) > 255 {
		hash := fmt.Sprintf("~%.8x", sha256.Sum256([]byte(name)))
		name = name[:255-len(hash)] + hash
	}
	return name
}

// networks returns the provider's networks for a key, oldest first, and the number of other
// networks of that name.
func (p *Provider) networks(ctx context.Context, key types.NamespacedName) (ours []networks.Network, others int, err error) {
	name := p.name(key)
	pages, err := networks.List(p.client, networks.ListOpts{Name: name}).AllPages(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("list networks of the name %s: %w", name, explain(err))
	}
	all, err := networks.ExtractNetworks(pages)
	if err != nil {
		return nil, 0, fmt.Errorf("list networks of the name %s: %w", name, err)
	}
	for _, n := range all {
		switch {
		case n.Name != name: // a cloud that does not filter
		case n.Description == mark:
			ours = append(ours, n)
		default:
			others++
		}
	}
	slices.SortFunc(ours, func(a, b networks.Network) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return ours, others, nil
}

// subnets returns the provider's subnets of a network.
func (p *Provider) subnets(ctx context.Context, network string) ([]subnets.Subnet, error) {
	pages, err := subnets.List(p.client, subnets.ListOpts{NetworkID: network}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("list subnets of network %s: %w", network, explain(err))
	}
	all, err := subnets.ExtractSubnets(pages)
	if err != nil {
		return nil, fmt.Errorf("list subnets of network %s: %w", network, err)
	}
	return slices.DeleteFunc(all, func(s subnets.Subnet) bool { return s.NetworkID != network || s.Description != mark }), nil
}

// complete makes the network have exactly one subnet of the provider, as spec says.
func (p *Provider) complete(ctx context.Context, network, name string, spec provider.Spec) error {
	found, err := p.subnets(ctx, network)
	if err != nil {
		return err
	}
	plan := planOf(found, spec)
	for _, id := range plan.remove { // first: the ranges of subnets in a network must not overlap
		if err := subnets.Delete(ctx, p.client, id).ExtractErr(); err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return fmt.Errorf("delete subnet %s: %w", id, explain(err))
		}
	}
	gateway := spec.Gateway.String()
	switch {
	case plan.keep == "":
		version := gophercloud.IPv4
		if spec.Gateway.Is6() {
			version = gophercloud.IPv6
		}
		err = subnets.Create(ctx, p.client, subnets.CreateOpts{
			NetworkID:   network,
			Name:        name,
			Description: mark,
			CIDR:        spec.CIDR.String(),
			GatewayIP:   &gateway,
			IPVersion:   version,
		}).Err
		if err != nil {
			return fmt.Errorf("create subnet %s: %w", spec.CIDR, explain(err))
		}
	case plan.gateway:
		// With the pools: a gateway must not be one of the addresses for virtual machines.
		err = subnets.Update(ctx, p.client, plan.keep, subnets.UpdateOpts{GatewayIP: &gateway, AllocationPools: pools(spec)}).Err
		if err != nil {
			return fmt.Errorf("set the gateway of subnet %s to %s: %w", plan.keep, gateway, explain(err))
		}
	}
	return nil
}

// remove deletes a network of the provider. Neutron deletes its subnets with it.
func (p *Provider) remove(ctx context.Context, id string) error {
	err := networks.Delete(ctx, p.client, id).ExtractErr()
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return fmt.Errorf("delete network %s: %w", id, explain(err))
	}
	return nil
}
