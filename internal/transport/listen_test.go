//go:build linux

package transport

import "testing"

// TestListenSharing checks that a port can be shared if all listeners permit it.
func TestListenSharing(t *testing.T) {
	for _, tc := range []struct{ first, second, want bool }{
		{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false},
	} {
		one, err := Listen("127.0.0.1:0", tc.first)
		if err != nil {
			t.Fatal(err)
		}
		two, err := Listen(one.Addr().String(), tc.second)
		if (err == nil) != tc.want {
			t.Errorf("sharing %t and %t: %v", tc.first, tc.second, err)
		}
		if err == nil {
			two.Close()
		}
		one.Close()
	}
}
