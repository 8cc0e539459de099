//! Files that programs make, told by their names, so that a screen can fold them.

/// File names of lock files.
const LOCKS: [&str; 18] = [
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "bun.lock",
    "bun.lockb",
    "composer.lock",
    "deno.lock",
    "flake.lock",
    "go.sum",
    "gradle.lockfile",
    "mix.lock",
    "package-lock.json",
    "packages.lock.json",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pubspec.lock",
    "uv.lock",
    "yarn.lock",
];

/// Ends of file names.
const ENDS: [&str; 12] = [
    ".min.js",
    ".min.css",
    ".js.map",
    ".css.map",
    ".pb.go",
    ".pb.cc",
    ".pb.h",
    "_pb2.py",
    ".g.dart",
    ".designer.cs",
    ".snap",
    ".generated.ts",
];

/// Directories.
const FOLDERS: [&str; 4] = ["node_modules", "vendor", "dist", "__snapshots__"];

/// Returns whether a program makes this file, as far as its name tells.
pub fn is_generated(path: &[u8]) -> bool {
    let Ok(path) = std::str::from_utf8(path) else {
        return false;
    };
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    LOCKS.contains(&name)
        || ENDS.iter().any(|end| name.ends_with(end))
        || folders.split('/').any(|folder| FOLDERS.contains(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell() {
        for path in [
            "Cargo.lock",
            "a/package-lock.json",
            "web/app.min.js",
            "vendor/x/y.go",
        ] {
            assert!(is_generated(path.as_bytes()), "{path}");
        }
        for path in ["src/lock.rs", "vendor.rs", "a/dist.c", "Cargo.toml"] {
            assert!(!is_generated(path.as_bytes()), "{path}");
        }
        assert!(!is_generated(b"\xff"));
    }
}
