// Package neutrontest is an OpenStack cloud for tests: the parts of Keystone v3 and Neutron v2.0
// that a provider of networks needs, with their rules. Names are not unique, lists are paged,
// ranges of subnets neither change nor overlap, virtual machines cannot have the address of a
// gateway, a subnet with ports cannot be deleted, and tokens expire.
//
//	cloud := neutrontest.New()
//	server := httptest.NewServer(cloud)
//	p, err := neutron.New(ctx, neutron.Options{Auth: neutrontest.Auth(server.URL)})
//
// [Cloud.Client] reaches it without a socket, for tests in a bubble of testing/synctest.
package neutrontest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// A Network is a network of Neutron.
type Network struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Status      string   `json:"status"`
	Subnets     []string `json:"subnets"`
	CreatedAt   string   `json:"created_at"`
}

// A Subnet is a subnet of Neutron.
type Subnet struct {
	ID              string  `json:"id"`
	NetworkID       string  `json:"network_id"`
	Name            string  `json:"name"`
	Description     string  `json:"description"`
	IPVersion       int     `json:"ip_version"`
	CIDR            string  `json:"cidr"`
	GatewayIP       *string `json:"gateway_ip"`
	AllocationPools []Pool  `json:"allocation_pools"`
}

// A Pool is a range of addresses that ports may have.
type Pool struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

// A Cloud is an http.Handler with Keystone below /identity and Neutron below /networking.
type Cloud struct {
	// PageSize is the number of items in a page of a list. 0: all.
	PageSize int

	mu       sync.Mutex
	last     int
	token    string
	networks []*Network
	subnets  []*Subnet
	ports    map[string]string // network by ID of the port
	log      []string
	fail     func(method, path string) (status int, message string)
	lose     func(method, path string) bool
}

// Users and passwords that Keystone accepts.
const (
	User     = "network-controller"
	Password = "secret"
	Project  = "project"
)

// New returns a cloud without networks.
func New() *Cloud { return &Cloud{ports: map[string]string{}} }

// Auth returns the options to authenticate with a cloud at a URL.
func Auth(url string) gophercloud.AuthOptions {
	return gophercloud.AuthOptions{IdentityEndpoint: url + "/identity/v3", Username: User, Password: Password, TenantName: Project, DomainID: "default"}
}

// Environment returns the OS_* variables to authenticate with a cloud at a URL.
func Environment(url string) map[string]string {
	return map[string]string{"OS_AUTH_URL": url + "/identity/v3", "OS_USERNAME": User, "OS_PASSWORD": Password, "OS_PROJECT_NAME": Project,
		"OS_DOMAIN_ID": "default", "OS_REGION_NAME": "RegionOne"}
}

// Client returns a client that sends all requests, whatever their address, to the cloud in the
// process.
func (c *Cloud) Client() *http.Client { return &http.Client{Transport: inProcess{c}} }

type inProcess struct{ http.Handler }

func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	inner := r.Clone(r.Context())
	inner.Host = r.URL.Host
	if inner.Body == nil {
		inner.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	t.ServeHTTP(w, inner)
	response := w.Result()
	response.Request = r
	return response, nil
}

// ExpireTokens expires all tokens.
func (c *Cloud) ExpireTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = ""
}

// Fail makes requests to Neutron fail without an effect: f returns the status and the message of
// the failure, or 0 for success. nil: no request fails.
func (c *Cloud) Fail(f func(method, path string) (status int, message string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = f
}

// Lose makes Neutron execute the requests for which f returns true, and return 504 like a proxy.
// nil: no such requests.
func (c *Cloud) Lose(f func(method, path string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose = f
}

// Networks returns copies of all networks, the oldest first.
func (c *Cloud) Networks() []Network {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Network
	for _, n := range c.networks {
		all = append(all, *n)
	}
	return all
}

// Subnets returns copies of all subnets, the oldest first.
func (c *Cloud) Subnets() []Subnet {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Subnet
	for _, s := range c.subnets {
		all = append(all, *s)
	}
	return all
}

// AddNetwork adds a network as another user would, and returns its ID.
func (c *Cloud) AddNetwork(name, description string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addNetworkLocked(name, description).ID
}

// RemoveNetwork removes a network as another user would.
func (c *Cloud) RemoveNetwork(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeNetworkLocked(id)
}

// AddPort puts a virtual machine into a network.
func (c *Cloud) AddPort(network string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports[c.idLocked()] = network
}

// RemovePorts removes all virtual machines from all networks.
func (c *Cloud) RemovePorts() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.ports)
}

// SetGateway sets the gateway of the subnets of a network. "": no gateway.
func (c *Cloud) SetGateway(network, gateway string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subnets {
		if s.NetworkID != network {
			continue
		}
		s.GatewayIP = nil
		if gateway != "" {
			s.GatewayIP = &gateway
		}
	}
}

// Log returns the requests to Neutron since the last call, as METHOD PATH, without queries.
func (c *Cloud) Log() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	log := c.log
	c.log = nil
	return log
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch path := r.URL.Path; {
	case r.Method == "POST" && path == "/identity/v3/auth/tokens":
		c.authenticateLocked(w, r)
	case path == "/networking/":
		answer(w, 200, map[string]any{"versions": []any{map[string]any{"id": "v2.0", "status": "CURRENT"}}})
	case strings.HasPrefix(path, "/networking/v2.0/"):
		c.neutronLocked(w, r, strings.TrimPrefix(path, "/networking/v2.0"))
	default:
		http.NotFound(w, r)
	}
}

// authenticateLocked checks the password, and returns a token and the catalog of the cloud.
func (c *Cloud) authenticateLocked(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct{ Name, Password string }
				}
			}
			Scope struct{ Project struct{ Name string } }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		answer(w, 400, map[string]any{"error": map[string]any{"code": 400, "message": err.Error()}})
		return
	}
	user := request.Auth.Identity.Password.User
	if user.Name != User || user.Password != Password || request.Auth.Scope.Project.Name != Project {
		answer(w, 401, map[string]any{"error": map[string]any{"code": 401, "message": "The request you have made requires authentication."}})
		return
	}
	c.token = c.idLocked()
	w.Header().Set("X-Subject-Token", c.token)
	answer(w, 201, map[string]any{"token": map[string]any{
		"methods":    []string{"password"},
		"expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"),
		"catalog": []any{map[string]any{"type": "network", "name": "neutron", "endpoints": []any{
			map[string]any{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "http://" + r.Host + "/networking"},
		}}},
	}})
}

// neutronLocked serves Neutron's resources.
func (c *Cloud) neutronLocked(w http.ResponseWriter, r *http.Request, path string) {
	if c.token == "" || r.Header.Get("X-Auth-Token") != c.token {
		answer(w, 401, map[string]any{"error": map[string]any{"code": 401, "message": "The request you have made requires authentication."}})
		return
	}
	c.log = append(c.log, r.Method+" "+path)
	if c.fail != nil {
		if status, message := c.fail(r.Method, path); status != 0 {
			refuse(w, status, "InternalServerError", message)
			return
		}
	}
	if c.lose != nil && c.lose(r.Method, path) {
		defer http.Error(w, "upstream request timeout", http.StatusGatewayTimeout)
		w = httptest.NewRecorder()
	}
	kind, id, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch kind {
	case "networks":
		c.networksLocked(w, r, id)
	case "subnets":
		c.subnetsLocked(w, r, id)
	default:
		refuse(w, 404, "HTTPNotFound", "The resource could not be found.")
	}
}

func (c *Cloud) networksLocked(w http.ResponseWriter, r *http.Request, id string) {
	at := slices.IndexFunc(c.networks, func(n *Network) bool { return n.ID == id })
	if id != "" && at < 0 {
		refuse(w, 404, "NetworkNotFound", "Network "+id+" could not be found.")
		return
	}
	var body struct {
		Network struct{ Name, Description string }
	}
	switch {
	case r.Method == "GET" && id == "":
		query := r.URL.Query()
		page(c, w, r, "networks", c.networks, func(n *Network) (string, bool) { return n.ID, !query.Has("name") || query.Get("name") == n.Name })
	case r.Method == "GET":
		answer(w, 200, map[string]any{"network": c.networks[at]})
	case r.Method == "POST" && id == "":
		if read(w, r, &body) {
			answer(w, 201, map[string]any{"network": c.addNetworkLocked(body.Network.Name, body.Network.Description)})
		}
	case r.Method == "DELETE" && id != "":
		if c.usedLocked(id) {
			refuse(w, 409, "NetworkInUse", "Unable to complete operation on network "+id+". There are one or more ports still in use on the network.")
			return
		}
		c.removeNetworkLocked(id)
		w.WriteHeader(204)
	default:
		refuse(w, 405, "HTTPMethodNotAllowed", r.Method)
	}
}

func (c *Cloud) addNetworkLocked(name, description string) *Network {
	n := &Network{ID: c.idLocked(), Name: name, Description: description, Status: "ACTIVE", Subnets: []string{},
		CreatedAt: time.Now().UTC().Format(time.RFC3339)}
	c.networks = append(c.networks, n)
	return n
}

func (c *Cloud) removeNetworkLocked(id string) {
	c.networks = slices.DeleteFunc(c.networks, func(n *Network) bool { return n.ID == id })
	c.subnets = slices.DeleteFunc(c.subnets, func(s *Subnet) bool { return s.NetworkID == id })
}

func (c *Cloud) usedLocked(network string) bool {
	return slices.Contains(slices.Collect(maps.Values(c.ports)), network)
}

// idLocked returns a new UUID.
func (c *Cloud) idLocked() string {
	c.last++
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", c.last)
}

// page writes a page of the matching items, with a link to the next one.
func page[T any](c *Cloud, w http.ResponseWriter, r *http.Request, kind string, all []T, match func(T) (id string, ok bool)) {
	marker := r.URL.Query().Get("marker")
	items := []T{}
	passed, last := marker == "", ""
	for _, item := range all {
		id, ok := match(item)
		switch {
		case !passed:
			passed = id == marker
		case !ok:
		case c.PageSize > 0 && len(items) == c.PageSize:
			next := *r.URL
			query := next.Query()
			query.Set("marker", last)
			next.RawQuery, next.Scheme, next.Host = query.Encode(), "http", r.Host
			links := []any{map[string]any{"rel": "next", "href": next.String()}}
			answer(w, 200, map[string]any{kind: items, kind + "_links": links})
			return
		default:
			items, last = append(items, item), id
		}
	}
	answer(w, 200, map[string]any{kind: items})
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		refuse(w, 400, "HTTPBadRequest", err.Error())
		return false
	}
	return true
}

func refuse(w http.ResponseWriter, status int, reason, message string) {
	answer(w, status, map[string]any{"NeutronError": map[string]any{"type": reason, "message": message, "detail": ""}})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}
