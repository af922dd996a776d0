import org.apache.paimon.disk.IOManager;

/** Where Java Paimon spills in this process: one folder, which goes when the process ends. */
final class PaimonDisk {
    static final IOManager DISK = made();

    private PaimonDisk() {}

    private static IOManager made() {
        IOManager disk = IOManager.create(System.getProperty("java.io.tmpdir"));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                disk.close();
            } catch (Exception e) {
                System.err.println(e);
            }
        }));
        return disk;
    }
}
