package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Flags of kube-apiserver for requests, addresses and certificates have its meaning.
func TestRequestFlags(t *testing.T) {
	u, _ := upFlags(t)
	o := u.options
	if r := o.Requests; r.Timeout != time.Minute || r.MinWatch != 30*time.Minute || o.EventTTL != time.Hour || o.NodePorts != (utilnet.PortRange{Base: 30000, Size: 2768}) {
		t.Errorf("defaults: %+v, events %v, ports %s", r, o.EventTTL, o.NodePorts)
	}
	u, _ = upFlags(t, "--request-timeout=90s", "--min-request-timeout=300", "--strict-transport-security-directives=max-age=1,preload", "--cors-allowed-origins=//a$",
		"--goaway-chance=0.01", "--event-ttl=0", "--shutdown-delay-duration=5s", "--shutdown-send-retry-after", "--shutdown-watch-termination-grace-period=6s", "--kubernetes-service-node-port=8003", "--permit-port-sharing", "--service-node-port-range=8000-8009", "--external-hostname=a", "--advertise-address=10.1.2.3",
		"--tls-sni-cert-key=a.crt,a.key", "--tls-sni-cert-key=b.crt,b.key:*.b.com,b.com", "--disable-http2-serving", "--http2-max-streams-per-connection=7", "--tls-curve-preferences=29,23")
	want := kapok.RequestOptions{Timeout: 90 * time.Second, MinWatch: 5 * time.Minute, TransportSecurity: []string{"max-age=1", "preload"}, AllowedOrigins: []string{"//a$"}, GoawayChance: 0.01}
	if o := u.options; !reflect.DeepEqual(o.Requests, want) || o.EventTTL >= 0 || o.ShutdownDelay != 5*time.Second || !o.ShutdownRetryAfter || o.ShutdownWatchGrace != 6*time.Second || o.KubernetesNodePort != 8003 ||
		o.NodePorts != (utilnet.PortRange{Base: 8000, Size: 10}) || o.ExternalHost != "a" || o.AdvertiseAddress.String() != "10.1.2.3" {
		t.Errorf("%+v", o)
	}
	named := []kapok.NamedCertificate{{CertFile: "a.crt", KeyFile: "a.key"}, {CertFile: "b.crt", KeyFile: "b.key", Names: []string{"*.b.com", "b.com"}}}
	if o := u.options.Serving; !reflect.DeepEqual(o.Named, named) || !o.NoHTTP2 || !o.SharePort || o.MaxStreams != 7 || !slices.Equal(o.CurvePreferences, []int{29, 23}) {
		t.Errorf("%+v", o)
	}
	texts := (*namedCertificates)(&named).GetSlice()
	var again namedCertificates
	if err := again.Replace(texts); err != nil || !slices.Equal(again.GetSlice(), texts) {
		t.Errorf("%q, %v", texts, err)
	}
}

// The errors name the flag and what is wanted.
func TestRequestFlagErrors(t *testing.T) {
	for arg, want := range map[string]string{
		"--request-timeout=soon":                               "--request-timeout: \"soon\" is not a duration",
		"--request-timeout=0":                                  "--request-timeout: \"0\" must be positive",
		"--request-timeout=-1s":                                "--request-timeout: \"-1s\" must be positive",
		"--min-request-timeout=1h":                             "--min-request-timeout: \"1h\" is not an integer",
		"--min-request-timeout=-1":                             "--min-request-timeout: \"-1\" must not be negative",
		"--min-request-timeout=9223372036854775807":            "is not an integer, or too large",
		"--event-ttl=-1s":                                      "--event-ttl: \"-1s\" must not be negative",
		"--shutdown-delay-duration=-1s":                        "--shutdown-delay-duration is -1s: it cannot be negative",
		"--shutdown-watch-termination-grace-period=-1s":        "--shutdown-watch-termination-grace-period is -1s: it cannot be negative",
		"--kubernetes-service-node-port=80":                    "--kubernetes-service-node-port is 80: want 0, or one of the node ports 30000-32767",
		"--goaway-chance=0.5":                                  "--goaway-chance is 0.5: want a number from 0 to 0.02",
		"--strict-transport-security-directives=max-age=never": "--strict-transport-security-directives has \"max-age=never\"",
		"--cors-allowed-origins=example.com":                   "--cors-allowed-origins has \"example.com\"",
		"--service-node-port-range=0-10":                       "--service-node-port-range: \"0-10\" is invalid: want the first and the last port",
		"--service-node-port-range=10":                         "", // one port
		"--service-node-port-range=1-65536":                    "want the first and the last port",
		"--external-hostname=https://a":                        "--external-hostname is \"https://a\"",
		"--advertise-address=0.0.0.0":                          "--advertise-address: \"0.0.0.0\" is invalid: want the IP address of one machine",
		"--tls-sni-cert-key=a.crt":                             "--tls-sni-cert-key: \"a.crt\" is invalid: want CERT,KEY",
		"--tls-sni-cert-key=a.crt,a.key:A":                     "has the name \"A\"",
		"--tls-curve-preferences=29,29":                        "duplicate curve preference 29",
		"--tls-curve-preferences=70000":                        "curve preference 70000 is out of range (must be 1-65535)",
		"--tls-curve-preferences=7":                            "curve preference 7 is not supported by the current Go version",
		"--http2-max-streams-per-connection=-1":                "--http2-max-streams-per-connection is -1: it cannot be negative",
	} {
		c := newUpState()
		command := c.command()
		err := command.Flags().Parse([]string{"--in-memory", "--listen=127.0.0.1:0", arg})
		if err != nil {
			err = wrongFlag(command, err)
		}
		if err == nil {
			opts, invalid := c.complete(t.Output())
			if err = invalid; err == nil {
				err = inFlags(opts.Validate(), command.Flags(), &c.options)
			}
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", arg, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
}
