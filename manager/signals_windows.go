package manager

import "os"

func shutdownSignals() []os.Signal { return []os.Signal{os.Interrupt} }
