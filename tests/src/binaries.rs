//! Building and finding the programs under test, and the programs that tests use as props.
//!
//! A test of this package does not make cargo build the other packages' binaries, so the harness asks for it once per
//! test process. What was built is linked into a directory named after its content: a later build replaces files in
//! cargo's own directory while tests of an earlier one may still be starting them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// The programs of the product.
pub const PRODUCT: [&str; 5] = [
    "git-agent",
    "git-agent-board",
    "git-agent-builtin",
    "git-agent-review",
    "git-agent-merge",
];

/// Names the directory of the programs to test instead of those that are built.
pub const INSTALLED: &str = "GIT_AGENT_TEST_INSTALLED";
/// Longer than any test process lives.
const KEEP_BUILDS: Duration = Duration::from_secs(60 * 60);

/// Where the programs are.
#[derive(Debug)]
pub struct Binaries {
    /// The directory holding exactly the product's programs, or the installed copy named by `GIT_AGENT_TEST_INSTALLED`.
    pub product: PathBuf,
    /// The directory holding the props, such as `fake-agent`.
    pub props: PathBuf,
}

/// Returns the programs, built on the first call of this process.
pub fn binaries() -> &'static Binaries {
    static BINARIES: OnceLock<Result<Binaries, String>> = OnceLock::new();
    // A failure is kept too: the build need not fail once for every test.
    match BINARIES.get_or_init(Binaries::find) {
        Ok(binaries) => binaries,
        Err(why) => panic!("{why}"),
    }
}

/// Returns the top of the source tree.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package lies in the workspace")
}

/// Returns a directory for files that several test processes share; it lies in cargo's target directory.
pub fn shared_dir() -> PathBuf {
    let own = std::env::current_exe().expect("the test knows its own path");
    let profile = own
        .parent()
        .and_then(Path::parent)
        .expect("cargo puts tests two levels deep");
    let dir = profile.join("git-agent-tests");
    fs::create_dir_all(&dir).expect("the target directory is writable");
    dir
}

/// Runs `f` while no other test process is in here.
pub fn exclusively<T>(f: impl FnOnce() -> T) -> T {
    let lock = File::create(shared_dir().join("lock")).expect("the lock file can be made");
    lock.lock().expect("the lock file can be locked");
    f()
}

impl Binaries {
    fn find() -> Result<Self, String> {
        let installed = std::env::var_os(INSTALLED).map(PathBuf::from);
        if let Some(dir) = &installed {
            assert!(dir.is_absolute(), "{INSTALLED} must be an absolute path");
            for name in PRODUCT {
                let path = dir.join(name);
                assert!(
                    path.is_file(),
                    "{INSTALLED}: there is no {}",
                    path.display()
                );
            }
        }
        exclusively(|| {
            let built = build(installed.is_none())?;
            let pinned = pin(&built);
            Ok(Binaries {
                product: installed.unwrap_or_else(|| pinned.join("product")),
                props: pinned.join("props"),
            })
        })
    }
}

#[derive(Default)]
struct Built {
    product: BTreeMap<String, PathBuf>,
    props: BTreeMap<String, PathBuf>,
}

fn build(with_product: bool) -> Result<Built, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--bins",
        "--quiet",
        "--message-format=json-render-diagnostics",
    ]);
    if with_product {
        command.arg("--workspace");
    } else {
        command.args(["--package", env!("CARGO_PKG_NAME")]);
    }
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    // Cargo told this process about its own package. A build script that watches such variables, as ring's does, would
    // run again on each change between here and a shell, and everything above it would be compiled again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    let output = command
        .current_dir(workspace())
        .stdin(Stdio::null())
        .output()
        .expect("cargo starts");
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the programs under test do not build:\n{errors}"));
    }
    let mut built = Built::default();
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<serde_json::Value>(line) else {
            continue;
        };
        let (Some(executable), Some(manifest)) = (
            message["executable"].as_str(),
            message["manifest_path"].as_str(),
        ) else {
            continue;
        };
        let path = PathBuf::from(executable);
        let name = path
            .file_name()
            .expect("an executable has a name")
            .to_string_lossy()
            .into_owned();
        let props = Path::new(manifest) == Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        if props {
            &mut built.props
        } else {
            &mut built.product
        }
        .insert(name, path);
    }
    if with_product {
        let names: Vec<_> = built.product.keys().map(String::as_str).collect();
        let mut wanted = PRODUCT.to_vec();
        wanted.sort_unstable();
        assert_eq!(
            names, wanted,
            "the workspace builds other programs than these three"
        );
    }
    Ok(built)
}

fn pin(built: &Built) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    for path in built.product.values().chain(built.props.values()) {
        let metadata = fs::metadata(path).expect("a built program exists");
        (path, metadata.len(), metadata.modified().ok()).hash(&mut hasher);
    }
    let root = shared_dir();
    let pinned = root.join(format!("build-{:016x}", hasher.finish()));
    if !pinned.is_dir() {
        let fresh = root.join("build-unfinished");
        match fs::remove_dir_all(&fresh) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
        for (kind, programs) in [("product", &built.product), ("props", &built.props)] {
            let dir = fresh.join(kind);
            fs::create_dir_all(&dir).expect("the target directory is writable");
            for (name, path) in programs {
                fs::hard_link(path, dir.join(name)).expect("a built program can be linked");
            }
        }
        fs::rename(&fresh, &pinned).expect("the finished directory takes its name");
    }
    forget_old_builds(&root, &pinned);
    pinned
}

fn forget_old_builds(root: &Path, current: &Path) {
    for entry in fs::read_dir(root)
        .expect("the shared directory is readable")
        .flatten()
    {
        let old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|time| {
                SystemTime::now().duration_since(time).unwrap_or_default() > KEEP_BUILDS
            });
        let build = entry.file_name().to_string_lossy().starts_with("build-");
        if old && build && entry.path() != current {
            // Another checkout of this tree may share the target directory and do the same: a failure is harmless.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
