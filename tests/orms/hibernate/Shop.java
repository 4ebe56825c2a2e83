// A shop on Hibernate: java Shop, with $PORT, $USER and $SCHEMA. What it prints is the same at every server.

import jakarta.persistence.*;
import java.math.BigDecimal;
import java.sql.SQLException;
import java.time.*;
import java.util.*;
import java.util.stream.Collectors;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.*;
import org.hibernate.cfg.Configuration;
import org.hibernate.exception.ConstraintViolationException;
import org.hibernate.type.SqlTypes;

public class Shop {
    enum Level { PLAIN, GOLD }

    @Embeddable
    public static class Address {
        String street;
        @Column(length = 10) String code;
    }

    @Entity(name = "Customer") @jakarta.persistence.Table(name = "customer", indexes = @jakarta.persistence.Index(name = "by_name", columnList = "name, level"))
    public static class Customer {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Integer id;
        @Column(nullable = false, unique = true, length = 120) String email;
        @Column(length = 80, columnDefinition = "varchar(80) not null default 'nobody' comment 'as it is said'") String name = "nobody";
        LocalDate born;
        @JdbcTypeCode(SqlTypes.JSON) Map<String, Object> settings;
        @Enumerated(EnumType.STRING) Level level = Level.PLAIN;
        @Embedded Address address;
        @Version int version;
        @ElementCollection @CollectionTable(name = "customer_word") @OrderColumn(name = "place") List<String> words = new ArrayList<>();
        @OneToMany(mappedBy = "customer", cascade = jakarta.persistence.CascadeType.ALL, orphanRemoval = true) @OrderBy("id") List<Order> orders = new ArrayList<>();

        Customer() { }
        Customer(String email, String name) { this.email = email; this.name = name; }
        public String toString() {
            return id + " " + email + " " + name + " " + born + " " + (settings == null ? null : new TreeMap<>(settings)) + " " + level + " "
                + (address == null ? null : address.street + "/" + address.code) + " v" + version;
        }
    }

    @Entity(name = "Purchase") @jakarta.persistence.Table(name = "purchase") @Check(name = "total_positive", constraints = "total >= 0")
    public static class Order {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE, generator = "purchases")
        @SequenceGenerator(name = "purchases", sequenceName = "purchase_numbers", allocationSize = 10) Long id;
        @ManyToOne(optional = false, fetch = FetchType.LAZY) @JoinColumn(foreignKey = @ForeignKey(name = "purchase_customer")) Customer customer;
        @Column(precision = 14, scale = 4) BigDecimal total = BigDecimal.ZERO;
        double exact;
        Float rough;
        Boolean paid = false;
        Short small;
        @Column(columnDefinition = "datetime(6)") LocalDateTime placed;
        Instant seen;
        LocalTime opens;
        UUID token;
        @Lob String note;
        @Column(length = 16) byte[] seal;
        Duration took;
        @ManyToMany @JoinTable(name = "purchase_product") @OrderBy("sku") Set<Product> products = new LinkedHashSet<>();

        public String toString() {
            return id + " " + total + " " + exact + " " + rough + " " + paid + " " + small + " " + placed + " " + seen + " " + opens + " " + token
                + " " + note + " " + (seal == null ? null : HexFormat.of().formatHex(seal)) + " " + took;
        }
    }

    @Entity(name = "Product") @jakarta.persistence.Table(name = "product", uniqueConstraints = @UniqueConstraint(name = "product_sku", columnNames = "sku"))
    @Inheritance(strategy = InheritanceType.JOINED)
    public static class Product {
        @Id @Column(length = 36) String id;
        @Column(length = 20, nullable = false) String sku;
        @Column(precision = 12, scale = 3) BigDecimal price;
        @ManyToOne @OnDelete(action = OnDeleteAction.SET_NULL) Product parent;
        @CreationTimestamp Instant created;
        public String toString() { return id + " " + sku + " " + price + " " + (parent == null ? null : parent.id); }
    }

    @Entity(name = "Book") @jakarta.persistence.Table(name = "book")
    public static class Book extends Product {
        @Column(length = 17) String isbn;
        @Column(length = 100_000) String text;
        public String toString() { return super.toString() + " " + isbn + " " + text; }
    }

    static SessionFactory factory;

    static void say(String title, Object value) {
        System.out.println(title + ": " + value);
    }

    interface Work { void run(Session session) throws Exception; }

    static void within(Work work) {
        factory.inTransaction(session -> {
            try {
                work.run(session);
            } catch (RuntimeException error) {
                throw error;
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        });
    }

    static void refused(String title, Work work) {
        try {
            within(work);
            say(title, "no error");
        } catch (RuntimeException error) {
            Throwable cause = error;
            while (cause.getCause() != null && !(cause instanceof SQLException)) cause = cause.getCause();
            String sql = cause instanceof SQLException state ? state.getErrorCode() + " " + state.getSQLState() : cause.getMessage();
            String name = error instanceof ConstraintViolationException violation ? violation.getKind() + " " + violation.getConstraintName() : "";
            say(title, error.getClass().getSimpleName() + " " + sql + " " + name);
        }
    }

    static Configuration configuration(String action) {
        Configuration configuration = new Configuration();
        for (Class<?> entity : List.of(Customer.class, Order.class, Product.class, Book.class)) configuration.addAnnotatedClass(entity);
        configuration.setProperty("hibernate.connection.url", "jdbc:mariadb://127.0.0.1:" + System.getenv("PORT") + "/" + System.getenv("SCHEMA"));
        configuration.setProperty("hibernate.connection.username", System.getenv("USER"));
        configuration.setProperty("hibernate.connection.password", "");
        configuration.setProperty("hibernate.hbm2ddl.auto", action);
        configuration.setProperty("hibernate.jdbc.batch_size", "20");
        configuration.setProperty("hibernate.jdbc.time_zone", "UTC");
        configuration.setProperty("hibernate.show_sql", System.getenv("LOG") != null ? "true" : "false");
        return configuration;
    }

    static void structure() {
        within(session -> {
            List<Object[]> tables = session.createNativeQuery("SHOW FULL TABLES", Object[].class).list();
            for (Object[] row : tables) {
                if (!row[1].equals("SEQUENCE")) {
                    List<Object[]> text = session.createNativeQuery("SHOW CREATE TABLE `" + row[0] + "`", Object[].class).list();
                    say((String) row[0], String.valueOf(text.get(0)[1]).replaceAll(" AUTO_INCREMENT=\\d+", "").replace("\n", " "));
                } else {
                    say("sequence", row[0]);
                }
            }
        });
    }

    static void fill() {
        within(session -> {
            for (int n = 1; n <= 4; n++) {
                Product product = n % 2 == 0 ? new Book() : new Product();
                product.id = "p" + n;
                product.sku = "SKU " + n;
                product.price = new BigDecimal(n + ".125");
                if (product instanceof Book book) {
                    book.isbn = "978-" + n;
                    book.text = "x😀".repeat(n);
                }
                if (n > 2) product.parent = session.find(Product.class, "p1");
                session.persist(product);
            }
            Customer ada = new Customer("ada@example.org", "Ada");
            ada.born = LocalDate.of(1815, 12, 10);
            ada.settings = Map.of("theme", "dark", "list", List.of(1, "é"));
            ada.address = new Address();
            ada.address.street = "St James's Sq";
            ada.words.addAll(List.of("one", "two", "three"));
            session.persist(ada);
            Customer bob = new Customer("bob@example.org", "Bob 😀");
            bob.level = Level.GOLD;
            session.persist(bob);
            session.persist(new Customer("eve@example.org", "Ève"));
            for (int n = 1; n <= 25; n++) {
                Order order = new Order();
                order.customer = n % 2 == 0 ? ada : bob;
                order.total = new BigDecimal(n * 3 + ".0625");
                order.exact = n / 7.0;
                order.rough = n / 4f;
                order.small = (short) -n;
                order.paid = n % 3 == 0;
                order.placed = LocalDateTime.of(2024, 2, 1 + n, 23, 59, 59, n * 1000);
                order.seen = Instant.ofEpochSecond(1_700_000_000L + n, 123_456_000);
                order.opens = LocalTime.of(n % 24, 30);
                order.token = new UUID(7, n);
                order.note = n % 5 == 0 ? "note '" + n + "'\\" : null;
                order.seal = new byte[] { (byte) n, 0, (byte) 0xff };
                order.took = Duration.ofMillis(n * 1001);
                order.products.add(session.find(Product.class, "p" + (1 + n % 4)));
                order.products.add(session.find(Product.class, "p" + (1 + (n + 1) % 4)));
                session.persist(order);
            }
        });
    }

    static void read() {
        within(session -> {
            say("one", session.createQuery("from Customer where email = :email", Customer.class).setParameter("email", "ada@example.org").getSingleResult());
            say("words", session.find(Customer.class, 1).words);
            say("orders", session.find(Customer.class, 2).orders.stream().limit(3).toList());
            List<Order> eager = session.createQuery("select distinct o from Purchase o join fetch o.customer left join fetch o.products where o.total > 60 order by o.id", Order.class).list();
            say("eager", eager.stream().map(order -> order.id + " " + order.customer.name + " " + order.products).toList());
            say("page", session.createQuery("from Purchase o order by o.placed desc", Order.class).setFirstResult(4).setMaxResults(3).list());
            say("products", session.createQuery("from Product order by id", Product.class).list());
            say("books", session.createQuery("from Book b where b.isbn like '978-%' order by b.sku", Book.class).list());
            say("sums", session.createQuery("select c.name, sum(o.total), count(*), avg(o.exact), max(o.opens) from Purchase o join o.customer c group by c.id, c.name having count(*) > 1 order by sum(o.total) desc", Object[].class)
                .list().stream().map(Arrays::toString).toList());
            say("subquery", session.createQuery("select p.id from Product p where p.price > (select avg(q.price) from Product q) order by p.id", String.class).list());
            say("functions", session.createQuery("select upper(c.name), length(c.email), year(c.born), concat(c.name, '!'), coalesce(c.level, 'x'), cast(c.id as string), extract(month from c.born), c.born + 1 day, locate('a', c.email), substring(c.email, 2, 3), c.id % 2, round(1.55, 1), case when c.id > 1 then 'b' else 'a' end from Customer c order by c.id", Object[].class)
                .list().stream().map(Arrays::toString).toList());
            say("window", session.createQuery("select o.id, rank() over (partition by o.customer.id order by o.total desc), sum(o.small) over (order by o.id) from Purchase o order by o.id limit 4", Object[].class)
                .list().stream().map(Arrays::toString).toList());
            say("union", session.createQuery("select c.name from Customer c where c.id = 1 union all select p.sku from Product p where p.id = 'p2' order by 1", String.class).list());
            say("with", session.createQuery("with best as (select o.customer.id as who, max(o.total) as top from Purchase o group by o.customer.id) select b.who, b.top from best b order by b.who", Object[].class)
                .list().stream().map(Arrays::toString).toList());
            say("recursive", session.createQuery("with tree as (select p.id as id, 1 as depth from Product p where p.parent is null union all select c.id as id, t.depth + 1 as depth from Product c join tree t on c.parent.id = t.id) select t.id, t.depth from tree t order by t.id", Object[].class)
                .list().stream().map(Arrays::toString).toList());
            say("members", session.createQuery("select c.id from Customer c where 'two' member of c.words", Integer.class).list());
            say("exists", session.createQuery("select c.id from Customer c where not exists (select 1 from Purchase o where o.customer = c) order by c.id", Integer.class).list());
            say("json", session.createNativeQuery("select json_value(settings, '$.theme') from customer order by id", String.class).list());
            say("stream", session.createQuery("from Purchase o order by o.id", Order.class).setFetchSize(5).stream().limit(3).map(order -> order.id).collect(Collectors.toList()));
        });
    }

    static void change() {
        within(session -> {
            Customer ada = session.find(Customer.class, 1);
            ada.settings = new TreeMap<>(Map.of("theme", "light"));
            ada.words.remove(1);
            ada.words.add("four");
            session.find(Customer.class, 2).orders.remove(0);
        });
        within(session -> {
            say("changed", session.find(Customer.class, 1) + " " + session.find(Customer.class, 1).words);
            say("orphan", session.createQuery("select count(*) from Purchase", Long.class).getSingleResult());
            say("updated", session.createMutationQuery("update Purchase o set o.total = o.total * 2, o.note = 'doubled' where o.total < 10").executeUpdate());
            say("joined", session.createMutationQuery("update Book b set b.price = b.price + 1, b.isbn = concat(b.isbn, '-x') where b.sku like 'SKU%'").executeUpdate());
            say("upserted", session.createMutationQuery("insert into Product (id, sku, price, created) values ('p1', 'SKU 1', 9.5, instant) on conflict do update set price = excluded.price").executeUpdate());
            say("inserted", session.createMutationQuery("insert into Customer (email, name, version) select concat(c.email, '.copy'), c.name, 0 from Customer c where c.id < 3").executeUpdate());
            say("deleted", session.createMutationQuery("delete from Customer c where c.email like '%.copy'").executeUpdate());
            say("products", session.createQuery("from Product order by id", Product.class).list());
        });
        factory.inStatelessTransaction(session -> {
            Product product = new Product();
            product.id = "p7";
            product.sku = "SKU 7";
            product.created = Instant.EPOCH;
            session.upsert(product);
            product.price = new BigDecimal("1.5");
            session.upsert(product);
        });
        within(session -> say("merged", session.find(Product.class, "p7")));
        within(session -> session.remove(session.find(Product.class, "p7")));
        within(session -> {
            Customer first = session.find(Customer.class, 3, LockModeType.PESSIMISTIC_WRITE);
            first.name = "Locked";
            factory.inTransaction(other -> say("skipped", other.createQuery("from Customer order by id", Customer.class)
                .setHibernateLockMode(org.hibernate.LockMode.UPGRADE_SKIPLOCKED).list().stream().map(customer -> customer.id).toList()));
        });
    }

    static void refuse() {
        refused("unique", session -> session.persist(new Customer("ada@example.org", "Twice")));
        refused("children", session -> session.createMutationQuery("delete from Customer where id = 1").executeUpdate());
        refused("no parent", session -> session.createNativeMutationQuery("insert into purchase (id, customer_id) values (-1, 99)").executeUpdate());
        refused("check", session -> session.createMutationQuery("update Purchase set total = -1").executeUpdate());
        refused("null", session -> { Product product = new Product(); product.id = "n"; session.persist(product); });
        refused("too long", session -> { Product product = new Product(); product.id = "n"; product.sku = "x".repeat(21); session.persist(product); });
        refused("stale", session -> {
            Customer bob = session.find(Customer.class, 2);
            factory.inTransaction(other -> other.find(Customer.class, 2).name = "Robert");
            bob.name = "Rob";
        });
        refused("rolled back", session -> { session.persist(new Customer("t@example.org", "T")); session.flush(); throw new IllegalStateException("mine"); });
        within(session -> say("left", session.createQuery("select c.email from Customer c order by c.id", String.class).list()));
    }

    public static void main(String[] arguments) {
        java.util.logging.Logger.getLogger("org.hibernate").setLevel(java.util.logging.Level.SEVERE);
        factory = configuration("create").buildSessionFactory();
        structure();
        fill();
        read();
        change();
        refuse();
        factory.close();
        // Nothing is missing, and nothing differs.
        factory = configuration("update").buildSessionFactory();
        structure();
        factory.close();
        configuration("validate").buildSessionFactory().close();
        factory = configuration("drop").buildSessionFactory();
        structure();
        factory.close();
    }
}
