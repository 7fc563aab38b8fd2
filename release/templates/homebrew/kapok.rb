class Kapok < Formula
  desc "Kubernetes API without the cluster"
  homepage "[[.Repository]]"
  version "[[.Number]]"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "[[.BaseURL]]/[[.DarwinARM64.File]]"
      sha256 "[[.DarwinARM64.SHA256]]"
    end
    on_intel do
      url "[[.BaseURL]]/[[.DarwinX64.File]]"
      sha256 "[[.DarwinX64.SHA256]]"
    end
  end

  on_linux do
    on_arm do
      url "[[.BaseURL]]/[[.LinuxARM64.File]]"
      sha256 "[[.LinuxARM64.SHA256]]"
    end
    on_intel do
      url "[[.BaseURL]]/[[.LinuxX64.File]]"
      sha256 "[[.LinuxX64.SHA256]]"
    end
  end

  def install
    bin.install "kapok"
    generate_completions_from_executable(bin/"kapok", "completion")
    system bin/"kapok", "reference", "--format", "man", "man1"
    man1.install Dir["man1/*.1"]
  end

  service do
    run [opt_bin/"kapok", "up", "--data-dir", var/"lib/kapok", "--log-format", "json"]
    keep_alive true
    error_log_path var/"log/kapok.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/kapok version")
  end
end
